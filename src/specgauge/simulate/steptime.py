"""How long an engine step takes: by batch size, prefilled tokens, drafts, and planted spread."""

from __future__ import annotations

import bisect
import random

from specgauge.simulate.surroundings import Noise
from specgauge.simulate.truth import Truth
from specgauge.simulate.variant import Affine


class StepTime:
    """Step times of one server process.

    ``start_factor`` is this process's own factor (``noise``): it multiplies every step.
    """

    def __init__(self, truth: Truth, section: str, start: int = 0) -> None:
        self._law = truth.step_law(section)
        self._drafted_s = truth.variant(section).drafted_step_ms / 1000
        self._prefill_rate = truth.prefill_tokens_per_s
        self._cv = truth.noise.step_cv
        self._rng = random.Random(f"step:{truth.seed}:{section}")
        self._drift = truth.noise.drift_per_minute / 60
        self.start_factor = _start_factor(truth.noise, start)

    def mean(self, batch: int) -> float:
        """Seconds of a step of ``batch`` requests, without prefill, draft or spread."""
        if isinstance(self._law, Affine):
            return (self._law.base + self._law.per_request * batch) / 1000
        sizes = sorted(self._law)
        at = bisect.bisect_left(sizes, batch)
        if at == 0:
            return self._law[sizes[0]] / 1000
        if at == len(sizes):
            return self._law[sizes[-1]] / 1000
        low, high = sizes[at - 1], sizes[at]
        share = (batch - low) / (high - low)
        return (self._law[low] * (1 - share) + self._law[high] * share) / 1000

    def draw(
        self, batch: int, prefill_tokens: int, drafted: bool, since_ready_s: float = 0.0
    ) -> float:
        """Seconds of one step."""
        time = self.mean(batch) + (self._drafted_s if drafted else 0.0)
        time += prefill_tokens / self._prefill_rate
        if self._cv:
            time *= 1 + self._cv * _cut(self._rng.gauss(0, 1))
        return max(time * self.start_factor * (1 + self._drift * since_ready_s), 0.0)


def _start_factor(noise: Noise, start: int) -> float:
    if noise.start_factors:
        return noise.start_factors[start % len(noise.start_factors)]
    own = noise.start_seed
    spread = random.Random() if own is None else random.Random(f"start:{own}:{start}")
    return 1 + noise.start_cv * _cut(spread.gauss(0, 1))


def _cut(z: float) -> float:
    return max(-3.0, min(3.0, z))
