"""Which GPU is meant: by PCI bus ID, in any of the forms that tools print.  Stdlib only."""

from __future__ import annotations

import dataclasses
import re

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.gpu.device import Device, Nvml, NvmlFault

_BUS_ID = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})(?:\.(?P<fn>[0-7]))?"
)


def normal_bus_id(text: str) -> str:
    """NVML's form of a PCI bus ID: ``0000:41:00.0``, ``41:00.0`` → ``00000000:41:00.0``.

    Raises:
        UsageError: not a bus ID.
    """
    match = _BUS_ID.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(
            f"{text!r} is not a PCI bus ID; it looks like 00000000:41:00.0 "
            "(nvidia-smi --query-gpu=pci.bus_id --format=csv)"
        )
    domain = int(match["domain"] or "0", 16)
    return f"{domain:08x}:{match['bus']}:{match['slot']}.{match['fn'] or '0'}"


def find(nvml: Nvml, bus_id: str) -> Device:
    """The GPU at ``bus_id``.

    Raises:
        UsageError: not a bus ID, none there (with the table of those present), or a card in MIG
            mode, which can be used only by the UUID of one of its instances.
        EnvironmentFault: NVML does not answer.
    """
    wanted = normal_bus_id(bus_id)
    present = devices(nvml)
    for device in present:
        if normal_bus_id(device.pci_bus_id) != wanted:
            continue
        if device.mig:
            parts = "\n".join(f"  {uuid}" for uuid in device.mig_uuids) or "  (none is made)"
            raise UsageError(
                f"the GPU at {wanted} ({device.name}) is in MIG mode: give one of its instances "
                f"by its UUID, 'make pin GPU_UUID=MIG-…':\n{parts}"
            )
        return device
    raise UsageError(f"no GPU at {wanted}. Present are:\n{table(present)}")


def find_mig(nvml: Nvml, uuid: str) -> Device:
    """The card that carries the MIG instance ``uuid``.

    Raises:
        UsageError: no card has it (with the table of those present).
        EnvironmentFault: NVML does not answer.
    """
    present = devices(nvml)
    for device in present:
        if uuid in device.mig_uuids:
            return device
    raise UsageError(f"no MIG instance {uuid}. Present are:\n{table(present)}")


def by_uuid(nvml: Nvml, uuid: str) -> Device:
    """The card or MIG instance ``uuid``; an instance's ``Device`` carries its own UUID.

    A MIG instance has memory and processes of its own; the card's are also other people's.

    Raises:
        UsageError: no such one (with the table of those present).
        EnvironmentFault: NVML does not answer.
    """
    if uuid.startswith("MIG-"):
        return dataclasses.replace(find_mig(nvml, uuid), uuid=uuid)
    present = devices(nvml)
    for device in present:
        if device.uuid == uuid:
            return device
    raise UsageError(f"no GPU {uuid}. Present are:\n{table(present)}")


def devices(nvml: Nvml) -> list[Device]:
    """All GPUs.  Raises EnvironmentFault when NVML does not answer."""
    try:
        return nvml.devices()
    except NvmlFault as fault:
        raise EnvironmentFault(f"NVML does not answer: {fault}") from None


def table(present: list[Device]) -> str:
    """The GPUs present, for people."""
    lines = [f"  {d.pci_bus_id}  {d.uuid}  {d.name}" for d in present]
    for at, device in reversed(list(enumerate(present))):
        lines[at + 1 : at + 1] = [f"      MIG instance {uuid}" for uuid in device.mig_uuids]
    return "\n".join(lines) or "  none"
