"""The GPU: driver and NVML, the card by PCI bus ID, who is on it.  Nobody is touched."""

from __future__ import annotations

import os
from pathlib import Path

from specgauge.gpu.choose import UUID, choose
from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable
from specgauge.gpu.find import devices
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.occupancy import Occupancy, look
from specgauge.preflight.context import Context, gib
from specgauge.preflight.result import Result, fail, ok, skipped


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
    if not present:
        return fail("the driver sees no GPU", "is this the machine that has it?")
    count = f"{len(present)} GPU{'s' if len(present) > 1 else ''}"
    return ok(f"driver {version}, {count}")


def card(context: Context) -> Result:
    """Which card: by PCI bus ID, never by an index; as ``specgauge run`` chooses it."""
    model, dotenv = context.resolved.model, context.dotenv
    # UsageError: an index, an unknown one, several and none named: with those present.
    choice = choose(model.platform, model.name, context.bus_id, os.environ, dotenv)
    if choice is None:
        return skipped("no GPU takes part")
    nvml, device = choice.nvml, choice.device
    pinned = dotenv.get(UUID)
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
    context.pin(nvml, device)
    told = traits.compute_capability or "unknown"
    return ok(
        f"{device.name} at {device.pci_bus_id} ({choice.why}), {device.uuid}, "
        f"{gib(memory.total)}, compute capability {told}"
    )


def tenants(context: Context) -> Result:
    """Who is on the card: named, and left alone."""
    if context.found.gpu is None:
        return skipped("no GPU takes part")
    nvml, device = context.found.gpu.nvml, context.found.gpu.device
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
        f"they are left alone: specgauge run --wait-gpu MINUTES waits for them."
        f"{_own(seen)}{elsewhere}",
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
