"""The GPU: driver and NVML, the card by PCI bus ID, who is on it.  Nobody is touched."""

from __future__ import annotations

import os
from pathlib import Path

from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable
from specgauge.gpu.find import devices, find, table
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.occupancy import Occupancy, look
from specgauge.preflight.context import Context, gib
from specgauge.preflight.result import Result, fail, ok, skipped
from specgauge.stack.env import read

PINNED = "GPU_PCI_BUS_ID"
"""Variable of the environment or of .env that names the card (``make pin`` writes it)."""


def driver(context: Context) -> Result:
    """Does NVML answer?"""
    if context.cpu:
        model = context.resolved.model
        return skipped(f"model {model.name!r} runs on the CPU (platform: {model.platform})")
    try:
        nvml = context.open_nvml()
        present = devices(nvml)
        version = nvml.driver()
    except NvmlUnavailable as error:
        return fail(
            f"no GPU can be used: {error}",
            "install NVIDIA's driver, or start it (nvidia-smi says why it does not); "
            "a model with 'platform: cpu' needs none",
        )
    except NvmlFault as fault:
        return fail(f"NVML does not answer: {fault}", "reload the driver, or ask who runs the node")
    context.found.nvml = nvml
    if not present:
        return fail("the driver sees no GPU", "is this the machine that has it?")
    count = f"{len(present)} GPU{'s' if len(present) > 1 else ''}"
    return ok(f"driver {version}, {count}")


def card(context: Context) -> Result:
    """Which card: by PCI bus ID, never by an index."""
    nvml = context.found.nvml
    if context.cpu or nvml is None:
        return skipped("no GPU takes part")
    present = devices(nvml)
    env = read(context.project.root / ".env")
    wanted = context.bus_id or os.environ.get(PINNED) or env.get(PINNED)
    if wanted:
        device = find(nvml, wanted)  # UsageError: the table of those present
    elif len(present) == 1 and not present[0].mig:
        device = present[0]
    else:
        return fail(
            f"no GPU is named, and there are:\n{table(present)}",
            "name one by its PCI bus ID: --gpu 00000000:41:00.0 (an index means another card to "
            "CUDA than to nvidia-smi)",
        )
    pinned = env.get("GPU_UUID")
    if context.compose and pinned and pinned != device.uuid:
        return fail(
            f"{device.pci_bus_id} is {device.uuid}, but .env pins {pinned} for the containers",
            f"make pin GPU_PCI_BUS_ID={device.pci_bus_id}",
        )
    try:
        memory, traits = nvml.memory(device), nvml.traits(device)
    except NvmlFault as fault:
        return fail(
            f"{device.pci_bus_id} does not answer: {fault}",
            "the card may have fallen off the bus: dmesg | grep -i xid; ask who runs the node",
        )
    context.found.device, context.found.capability = device, traits.compute_capability
    told = traits.compute_capability or "unknown"
    return ok(
        f"{device.name} at {device.pci_bus_id}, {device.uuid}, {gib(memory.total)}, "
        f"compute capability {told}"
    )


def tenants(context: Context) -> Result:
    """Who is on the card: named, and left alone."""
    nvml, device = context.found.nvml, context.found.device
    if context.cpu or nvml is None or device is None:
        return skipped("no GPU takes part")
    lock = DeviceLock(device.uuid)
    if not lock.acquire(0.0, lambda _: False):
        return fail(
            f"another specgauge measures on this GPU: {lock.holder()}",
            "wait for it; this preflight would disturb its numbers",
        )
    context.found.lock = lock
    try:
        seen = look(nvml, device)
    except NvmlFault as fault:
        return fail(f"NVML cannot tell who is on it: {fault}", "ask who runs the node")
    if seen.free:
        return ok(f"nobody; {seen.words()}")
    others = _other_free(nvml, device)
    elsewhere = f" Free now: {', '.join(others)} (--gpu)." if others else ""
    if not seen.tenants:
        hidden = "processes of other users or containers that NVML does not show here"
        return fail(
            f"somebody's memory is on it: {seen.words()} ({hidden})",
            f"find out whose it is before anything is started.{elsewhere}",
        )
    return fail(
        f"in use: {seen.words()}",
        f"wait until it is free; they are left alone.{_own(seen)}{elsewhere}",
    )


def _other_free(nvml: Nvml, device: Device) -> list[str]:
    found = []
    for other in devices(nvml):
        if other.uuid == device.uuid or other.mig:
            continue
        try:
            if look(nvml, other).free:
                found.append(other.pci_bus_id)
        except NvmlFault:
            continue
    return found


def _own(seen: Occupancy) -> str:
    """A left-over of the user's own is theirs to stop, not ours."""
    mine = []
    for tenant in seen.tenants or ():
        try:
            if Path(f"/proc/{tenant.pid}").stat().st_uid == os.getuid():
                mine.append(str(tenant.pid))
        except OSError:
            continue
    return f" Yours: {', '.join(mine)}; stop what you no longer need." if mine else ""
