"""Where telemetry comes from: NVML itself, or the stack's GPU exporter.  One small protocol."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from specgauge.gpu.device import Device, Memory, Nvml, NvmlFault, Reading
from specgauge.gpu.occupancy import look
from specgauge.gpu.owners import Judge, nobody
from specgauge.scrape.parse import samples

TIMEOUT_S = 1.0
"""For the exporter to answer: it sits on the same host."""
_PREFIX = "specgauge_gpu_"
_WORDS_AT_MOST = 5
"""Tenants named; more are counted."""


@dataclass(frozen=True)
class Tenants:
    """Processes on the card by owner, and those that are not ours in words."""

    ours: int
    other: int
    unknown: int
    others: str | None = None


@dataclass(frozen=True)
class Sample:
    """One look.  ``tenants`` None: not asked, or the driver does not say."""

    reading: Reading
    tenants: Tenants | None


class Source(Protocol):
    """A GPU that can be asked."""

    def sample(self, with_tenants: bool) -> Sample | None:
        """What it tells now; None: it does not answer (a hole in the record)."""


class NvmlSource:
    """The card itself.

    A process that is unknown in two looks one after the other has not just ended: where our own
    processes are seen (``judge`` tells), it is one that this user may not see, and another's.
    """

    def __init__(self, nvml: Nvml, device: Device, judge: Judge) -> None:
        self._nvml = nvml
        self._device = device
        self._judge = judge
        self._unseen: set[int] = set()

    def sample(self, with_tenants: bool) -> Sample | None:
        """See ``Source``."""
        try:
            reading = self._nvml.read(self._device)
        except NvmlFault:
            return None
        return Sample(reading, self._tenants() if with_tenants else None)

    def _tenants(self) -> Tenants | None:
        try:
            found = look(self._nvml, self._device, self._judge).tenants
        except NvmlFault:
            return None
        if found is None:
            return None
        unseen = {tenant.pid for tenant in found if tenant.owner == "unknown"}
        if self._judge is not nobody:
            found = tuple(
                dataclasses.replace(t, owner="other") if t.pid in unseen & self._unseen else t
                for t in found
            )
        self._unseen = unseen
        count = {owner: sum(t.owner == owner for t in found) for owner in ("ours", "other")}
        strange = [tenant.words() for tenant in found if tenant.owner != "ours"]
        listed = strange[:_WORDS_AT_MOST]
        if len(strange) > len(listed):
            listed.append(f"and {len(strange) - len(listed)} more")
        unknown = len(found) - count["ours"] - count["other"]
        return Tenants(count["ours"], count["other"], unknown, "; ".join(listed) or None)


class ExporterSource:
    """The card as ``gpu/exporter.py`` tells it: for a container that has no NVML.

    The exporter looks at the host's processes; it exports how many there are, not whose.
    """

    def __init__(self, url: str, uuid: str) -> None:
        self._page = _Page(url)
        self._uuid = uuid

    def sample(self, with_tenants: bool) -> Sample | None:
        """See ``Source``."""
        text = self._page.read()
        return None if text is None else parse(text, self._uuid, with_tenants)


class _Page:
    """A page read again and again over one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "127.0.0.1", parts.port or 80, timeout=TIMEOUT_S
        )
        self._path = parts.path or "/metrics"

    def read(self) -> str | None:
        try:
            self._connection.request("GET", self._path)
            response = self._connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):  # starting or stopping
            self._connection.close()
            return None
        return text if response.status == 200 else None

    def close(self) -> None:
        self._connection.close()


def fetch(url: str) -> str | None:
    """The exporter's text once; None where it does not answer."""
    page = _Page(url)
    try:
        return page.read()
    finally:
        page.close()


def parse(text: str, uuid: str, with_tenants: bool = True) -> Sample | None:
    """The exporter's text as a sample of the card ``uuid`` (empty: of the only one in it).

    Of a MIG instance's card only what they share: its power is also other people's.  None: the
    card is not in it, or did not answer.
    """
    import json

    instance = uuid.startswith("MIG-")
    values: dict[str, float] = {}
    owners: dict[str, float] = {}
    with contextlib.suppress(ValueError):
        for name, labels, value in samples(text):
            if not name.startswith(_PREFIX):
                continue
            told = json.loads(labels)
            if uuid and told.get("uuid") != uuid and not instance:
                continue
            if "owner" in told:
                owners[told["owner"]] = value
            else:
                values[name.removeprefix(_PREFIX)] = value
    if not values.get("up"):
        return None

    def whole(name: str, unit: float = 1.0) -> int | None:
        return None if name not in values else round(values[name] / unit)

    used, total = whole("memory_used_bytes"), whole("memory_total_bytes")
    reading = Reading(
        power_w=None if instance else values.get("power_watts"),
        energy_j=None if instance else values.get("energy_joules"),
        sm_clock_mhz=whole("sm_clock_hertz", 1e6),
        memory_clock_mhz=whole("memory_clock_hertz", 1e6),
        temperature_c=whole("temperature_celsius"),
        utilisation=None if instance else values.get("utilisation_ratio"),
        throttle_reasons=whole("throttle_reasons"),
        memory=None if used is None or total is None or instance else Memory(total, used),
    )
    if not with_tenants or not owners:
        return Sample(reading, None)
    ours, other, unknown = (round(owners.get(k, 0)) for k in ("ours", "other", "unknown"))
    others = None
    if other or unknown:
        others = f"{other} processes that are not this stack's, {unknown} whose owner is unknown"
    return Sample(reading, Tenants(ours, other, unknown, others))
