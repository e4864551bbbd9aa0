"""The summary's parts about the GPU: what it drew in a cell, and a variant against the baseline."""

from __future__ import annotations

from typing import Literal

from specgauge.analyze.part import Part, Verdict


class GpuFigures(Part):
    """What the GPU told while the cell ran, from the first send to the last chunk."""

    energy_j: float | None
    """Of the whole card, its idle draw included."""
    energy_from: str | None
    """``energy counter`` or ``integral of power``."""
    power_w: float | None
    """Energy / duration."""
    sm_clock_mhz: float | None
    """Mean over the samples."""
    temperature_c: float | None  # highest
    utilisation: float | None
    memory_used: float | None
    """Bytes, highest, whoever used them."""
    throttle: dict[str, float] = {}
    """Why the clocks were not at their highest, in words → share of the samples."""
    rest_power_w: float | None = None
    """What the card draws with the same server up and nothing to do: the median of its start's
    samples at rest (``analyze/rest.py``)."""
    rest_swing_w: float | None = None
    """Distance between the quartiles of those samples."""
    energy_above_rest_j: float | None = None
    """Energy less the rest power for as long; null where the two differ by less than the swing."""


class EnergyRatio(Part):
    """Energy of a variant / of the baseline under one load: below 1 the variant takes less."""

    variant: str
    against: str
    load: str
    metric: Literal["joules_per_token", "joules_per_token_above_rest"]
    ratio: float
    """Geometric mean of ``per_round``."""
    rounds: int
    """With a figure on both sides; copies of a round count once."""
    per_round: list[float]
    verdict: Verdict
    """That of the speed-up of the same cells."""
    reasons: list[str]
    """Codes behind a verdict that is not VALID."""
