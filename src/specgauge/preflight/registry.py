"""All checks in their order: cheapest first, the big download last."""

from __future__ import annotations

from specgauge.preflight.checks import (
    docker,
    flags,
    gpu,
    memory,
    models,
    place,
    server,
    smoke,
    toolchain,
    torch,
)
from specgauge.preflight.context import Context
from specgauge.preflight.result import Check

CHECKS: tuple[Check[Context], ...] = (
    Check("driver", "NVML answers, and which driver", gpu.driver),
    Check("gpu", "the card by PCI bus ID", gpu.card, ("driver",)),
    Check("tenants", "who is on it; the GPU's lock", gpu.tenants, ("gpu",)),
    Check("docker", "engine, GPUs for containers, images", docker.docker),
    Check("prompts", "the workload is here", place.prompts),
    Check("port", "free, and who can reach it", place.port),
    Check("server", "its program, Python and vLLM", server.program, ("docker",)),
    Check("python", "array.array[int], evaluated there", server.traps, ("server",)),
    Check("shm", "/dev/shm is large enough", server.shared_memory, ("server",)),
    Check("toolchain", "compiler, ninja, CUDA toolkit", toolchain.toolchain, ("server",)),
    Check("weights", "here, or the hub may give them", models.weights),
    Check("memory", "weights, drafter and KV cache fit", memory.memory, ("gpu", "weights")),
    Check("disk", "room for models, caches, results", place.disk),
    Check("torch", "built for this GPU's sm_XX", torch.build, ("gpu", "server")),
    Check("matmul", "a real kernel on the GPU", torch.matmul, ("tenants", "torch")),
    Check("flags", "vLLM knows every flag", flags.flags, ("server", "python")),
    Check("smoke", "serve, draft, stream, count: small model", smoke.smoke, needs_all=True),
    Check("fetch", "the big download", models.fetch, needs_all=True),
)
