"""Claims the GPU for one start: is it the wanted one, whose is it, is it free?  Stdlib and NVML."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable, Mapping

from specgauge.errors import SpecgaugeError
from specgauge.gpu.device import Device, Nvml, NvmlFault, NvmlUnavailable
from specgauge.gpu.find import devices, normal_bus_id, table
from specgauge.gpu.lock import DeviceLock
from specgauge.gpu.nvml import open_nvml
from specgauge.gpu.occupancy import wait_free

_WAIT_S = 4 * 3600.0


class Refused(Exception):
    """The server is not started; the text says why."""


def claim(env: Mapping[str, str], on_wait: Callable[[str], bool]) -> DeviceLock:
    """Lock the wanted GPU and see that it is free; without a GPU, the lock of the CPU.

    Args:
        env: ``GPU_UUID`` (empty: no GPU), ``GPU_PCI_BUS_ID``, ``SPECGAUGE_GPU_WAIT_S``.
        on_wait: told why it still waits; False ends the waiting.

    Raises:
        Refused: another GPU than the wanted one, or not free in time.
        EnvironmentFault: NVML or the lock's folder does not work.
    """
    uuid = env.get("GPU_UUID", "")
    limit = float(env.get("SPECGAUGE_GPU_WAIT_S") or _WAIT_S)
    began = time.monotonic()
    found = wanted_device(uuid, env.get("GPU_PCI_BUS_ID", "")) if uuid else None
    lock = DeviceLock(uuid or "cpu")
    what = f"GPU {uuid}" if uuid else "CPU"
    who = f"{env.get('COMPOSE_PROJECT', 'specgauge')}, container {socket.gethostname()}"
    if not lock.acquire(limit, lambda by: on_wait(f"the {what} is held by {by}"), who):
        raise Refused(
            f"the {what} was not to be had within {limit:.0f} s: {lock.holder()} holds it "
            "(GPU_WAIT_S in .env sets the limit)"
        )
    if found is not None:
        try:
            _await_free(*found, limit - (time.monotonic() - began), on_wait)
        except Refused:
            lock.release()
            raise
    return lock


def _await_free(nvml: Nvml, device: Device, limit_s: float, on_wait: Callable[[str], bool]) -> None:
    try:
        seen = wait_free(
            nvml,
            device,
            max(0.0, limit_s),
            lambda occupancy: on_wait(f"the GPU is in use: {occupancy.words()}"),
        )
    except NvmlFault as fault:
        raise Refused(f"NVML does not answer about GPU {device.uuid}: {fault}") from None
    if not seen.free:
        raise Refused(f"the GPU {device.uuid} is in use and was not freed: {seen.words()}")


def gpu_names(env: Mapping[str, str]) -> list[str] | None:
    """Names of this container's GPUs; empty where none is wanted, None where NVML says nothing."""
    if not env.get("GPU_UUID"):
        return []
    try:
        return [device.name for device in devices(open_nvml())]
    except (NvmlUnavailable, NvmlFault, SpecgaugeError):
        return None


def wanted_device(uuid: str, bus_id: str) -> tuple[Nvml, Device]:
    """NVML and the one GPU that this container was to get.

    Raises:
        Refused: none, another, or more than one is here.
    """
    try:
        nvml = open_nvml()
    except NvmlUnavailable as error:
        raise Refused(
            f"{error}. The container got no GPU: is the NVIDIA container toolkit installed? "
            "('make doctor' looks)"
        ) from None
    present = devices(nvml)
    fit = [d for d in present if uuid == d.uuid or uuid in d.mig_uuids]
    if bus_id:
        fit = [d for d in fit if normal_bus_id(d.pci_bus_id) == normal_bus_id(bus_id)]
    if len(fit) != 1 or len(present) != 1:
        raise Refused(
            f"wanted exactly the GPU {uuid} at {bus_id or 'any bus ID'}, and this container has:\n"
            f"{table(present)}\n'make pin GPU_PCI_BUS_ID=…' writes both to .env"
        )
    # A MIG instance has memory and processes of its own; the card's are also other people's.
    return nvml, dataclasses.replace(fit[0], uuid=uuid)
