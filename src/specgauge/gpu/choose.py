"""Which GPU a run in the process way uses: named by PCI bus ID, or the only one there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.gpu.device import Device, Nvml, NvmlUnavailable
from specgauge.gpu.find import by_uuid, devices, find, table
from specgauge.gpu.nvml import open_nvml

BUS_ID = "GPU_PCI_BUS_ID"
UUID = "GPU_UUID"
"""Both in .env as ``make pin`` writes them; the UUID tells more only for a MIG instance."""


@dataclass(frozen=True)
class Choice:
    """The GPU, and why it, for people."""

    nvml: Nvml
    device: Device
    why: str


def choose(
    platform: str,
    model: str,
    option: str | None,
    environ: Mapping[str, str],
    dotenv: Mapping[str, str],
) -> Choice | None:
    """The GPU for a model of ``platform`` (config/model.py); None: the run needs and takes none.

    Args:
        platform: ``cpu`` never takes one; ``any`` only one that is named; ``cuda`` needs one.
        model: its name, for messages.
        option: ``--gpu``: a PCI bus ID or a MIG instance's UUID.
        environ: the environment; its ``GPU_PCI_BUS_ID`` wins over .env's.
        dotenv: the variables of .env.

    Raises:
        UsageError: an index, an unknown GPU, several and none named, or one for a CPU model.
        EnvironmentFault: no GPU, or no NVML, where one is needed.
    """
    if platform == "cpu":
        if option is not None:
            raise UsageError(f"--gpu: model {model!r} is for the CPU build of vLLM (platform: cpu)")
        return None
    named, where = _named(option, environ, dotenv)
    if named is None and platform != "cuda":
        return None
    try:
        nvml = open_nvml()
    except NvmlUnavailable as error:
        reason = f"{where} names one" if named else f"model {model!r} needs one (platform: cuda)"
        raise EnvironmentFault(f"no GPU can be found: {error}; {reason}") from None
    if named is None:
        return _only(nvml, model)
    if re.fullmatch(r"\d+", named.strip()):
        raise UsageError(
            f"{where}: {named} is an index, and an index is not trusted: CUDA counts the fastest "
            "card first, NVML by PCI bus ID, and both count anew when a card is added or hidden. "
            f"Give a PCI bus ID:\n{table(devices(nvml))}"
        )
    if named.startswith("GPU-"):
        raise UsageError(
            f"{where}: a whole GPU is given by its PCI bus ID, not by its UUID:\n"
            f"{table(devices(nvml))}"
        )
    device = by_uuid(nvml, named) if named.startswith("MIG-") else find(nvml, named)
    return Choice(nvml, device, f"named by {where}")


def _named(
    option: str | None, environ: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[str | None, str]:
    """(bus ID or MIG UUID, where it was said)."""
    if option is not None:
        return option, "--gpu"
    for source, name in ((environ, "the environment"), (dotenv, ".env")):
        bus_id, uuid = source.get(BUS_ID), source.get(UUID, "")
        if bus_id and uuid.startswith("MIG-"):
            return uuid, f"{UUID} in {name}"
        if bus_id:
            return bus_id, f"{BUS_ID} in {name}"
    return None, ""


def _only(nvml: Nvml, model: str) -> Choice:
    present = devices(nvml)
    if not present:
        raise EnvironmentFault(f"model {model!r} needs a GPU (platform: cuda), and NVML shows none")
    if len(present) > 1:
        raise UsageError(
            "several GPUs are here and none is named: give one with --gpu BUS_ID, or as "
            f"{BUS_ID} in the environment or in .env ('make pin {BUS_ID}=…'):\n{table(present)}"
        )
    device = find(nvml, present[0].pci_bus_id)  # refuses a card in MIG mode, with its instances
    return Choice(nvml, device, "the only one here")
