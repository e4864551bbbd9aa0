"""``make pin``: a GPU's PCI bus ID → its UUID, both into .env.

The bus ID is what stays when cards are counted anew; the container runtime takes UUIDs.
"""

from __future__ import annotations

from pathlib import Path

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.gpu.device import Nvml, NvmlUnavailable
from specgauge.gpu.find import devices, find, find_mig, normal_bus_id, table
from specgauge.gpu.nvml import open_nvml
from specgauge.stack.env import put


def pin(root: Path, bus_id: str | None, uuid: str | None) -> str:
    """Write ``GPU_UUID`` and ``GPU_PCI_BUS_ID`` into ``root``'s .env.  Returns a line for people.

    Args:
        root: the checkout.
        bus_id: a PCI bus ID in any form that tools print.
        uuid: instead, a MIG instance's UUID.

    Raises:
        UsageError: no such GPU (with the table of those present), or .env is missing.
        EnvironmentFault: there is no NVML here.
    """
    nvml = nvml_here()
    if bus_id and uuid:
        raise UsageError("give the bus ID or a MIG instance's UUID, not both")
    if uuid:
        if not uuid.startswith("MIG-"):
            raise UsageError(f"{uuid}: a whole GPU is given by its PCI bus ID, not by its UUID")
        device = find_mig(nvml, uuid)
    elif bus_id:
        device = find(nvml, bus_id)
    else:
        raise UsageError(f"give GPU_PCI_BUS_ID=… of one of these:\n{table(devices(nvml))}")
    path = root / ".env"
    if not path.exists():
        raise UsageError(f"{path} is not there yet: type 'make env' first")
    values = {"GPU_PCI_BUS_ID": normal_bus_id(device.pci_bus_id), "GPU_UUID": uuid or device.uuid}
    put(path, values)
    return f"pinned {device.name}: {values['GPU_PCI_BUS_ID']} = {values['GPU_UUID']} (in {path})"


def nvml_here() -> Nvml:
    """NVML of this host.  Raises EnvironmentFault."""
    try:
        return open_nvml()
    except NvmlUnavailable as error:
        raise EnvironmentFault(
            f"no GPU can be found: {error}. Without a GPU use compose.cpu.yaml (make … CPU=1)"
        ) from None
