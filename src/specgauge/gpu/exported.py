"""The GPU of the Compose stack as its exporter tells it: the load generator has no NVML."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from specgauge.gpu.source import fetch
from specgauge.scrape.parse import samples

URL = "SPECGAUGE_GPU_METRICS"
"""Environment variable that names another place than the stack's exporter."""
DEFAULT_URL = "http://gpu-exporter:9400/metrics"
WAIT_S = 10.0
"""For the exporter to answer: the engine starts its container at the same time as ours."""
_POLL_S = 0.5
_PREFIX = "specgauge_gpu_"


def url_of(environ: Mapping[str, str]) -> str:
    """Where the exporter is."""
    return environ.get(URL) or DEFAULT_URL


def gpu_of_stack(
    names: list[str] | None,
    environ: Mapping[str, str],
    wait_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any] | None:
    """What a manifest says of the stack's GPU (as ``gpu/facts.py``); None without one.

    Args:
        names: of the server container's GPUs, as it tells; without any the stack has none.
        environ: may name the exporter.
        wait_s: for the exporter (and as long as its last question takes: a name that nobody knows
            is looked up for ten seconds); where it does not answer, only the name is known.
        clock, sleep: for tests.
    """
    if not names:
        return None
    deadline = clock() + wait_s
    while True:
        text = fetch(url_of(environ))
        if text is not None and (found := facts_in(text)) is not None:
            return found
        if clock() >= deadline:
            return {"name": names[0], "uuid": None, "pci_bus_id": None}
        sleep(_POLL_S)


def facts_in(text: str) -> dict[str, Any] | None:
    """The facts of the first card in the exporter's text; None without one."""
    try:
        lines = [
            (name.removeprefix(_PREFIX), json.loads(labels), value)
            for name, labels, value in samples(text)
        ]
    except ValueError:
        return None
    card = next((labels for name, labels, _ in lines if name == "info"), None)
    if card is None:
        return None
    value = {n: v for n, labels, v in lines if labels.get("pci_bus_id") == card["pci_bus_id"]}

    def megahertz(name: str) -> int | None:
        return None if name not in value else round(value[name] / 1e6)

    instance = card.get("instance", "")
    total = None if instance else value.get("memory_total_bytes")
    return {
        "name": card["name"],
        "uuid": instance or card["uuid"],
        "pci_bus_id": card["pci_bus_id"],
        "mig": bool(instance),
        "driver": card.get("driver") or None,
        "memory_gib": None if total is None else round(total / 2**30, 1),
        "compute_capability": card.get("compute_capability") or None,
        "power_limit_w": value.get("power_limit_watts"),
        "max_sm_clock_mhz": megahertz("sm_clock_max_hertz"),
        "max_memory_clock_mhz": megahertz("memory_clock_max_hertz"),
    }
