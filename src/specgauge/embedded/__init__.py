"""The default target: a real vLLM (CPU build) and a small real model, from package registries."""
