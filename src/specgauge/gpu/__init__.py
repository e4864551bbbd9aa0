"""GPUs through NVML: find by PCI bus ID, who is on it, lock, wait for release, export."""
