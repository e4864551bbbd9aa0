"""Drafts and how many of their tokens are accepted: the draw and what it means on average."""

from __future__ import annotations

import random
from dataclasses import dataclass

from specgauge.simulate.variant import Variant


@dataclass(frozen=True)
class Draft:
    """One request's draft in one step: proposed tokens and how many were accepted."""

    proposed: int
    accepted: int


class Drafter:
    """The drafts of one variant.

    Args:
        variant: coverage, acceptance law and draft lengths.
        num_speculative_tokens: K of the speculative config; 0 without one: never a draft.
    """

    def __init__(self, variant: Variant, num_speculative_tokens: int) -> None:
        self.k = num_speculative_tokens
        self.coverage = variant.coverage if self.k else 0.0
        self._at_least = _survival(variant, self.k)
        lengths = variant.draft_lengths or {self.k: 1.0}
        self._lengths = [(min(n, self.k), p) for n, p in sorted(lengths.items()) if p > 0]

    def draw(self, rng: random.Random, coverage_factor: float = 1.0) -> Draft | None:
        """One request-step: a draft, or None where there is none."""
        if self.coverage <= 0 or rng.random() >= self.coverage * coverage_factor:
            return None
        proposed = self._draw_length(rng)
        u = rng.random()
        accepted = 0
        while accepted < proposed and u < self._at_least[accepted]:
            accepted += 1
        return Draft(proposed, accepted)

    def _draw_length(self, rng: random.Random) -> int:
        if len(self._lengths) == 1:
            return self._lengths[0][0]
        u = rng.random()
        for length, probability in self._lengths:
            u -= probability
            if u < 0:
                return length
        return self._lengths[-1][0]

    def mean_accepted(self) -> float:
        """Expected accepted tokens of a draft: sum over positions of P(at least j accepted)."""
        return sum(p * sum(self._at_least[:n]) for n, p in self._lengths)

    def acceptance_length(self) -> float:
        """``1 + mean_accepted``: tokens of a step that had a draft."""
        return 1.0 + self.mean_accepted()

    def tokens_per_step(self) -> float:
        """``1 + coverage * (acceptance length - 1)``."""
        return 1.0 + self.coverage * self.mean_accepted()


def _survival(variant: Variant, k: int) -> list[float]:
    """P(at least j + 1 tokens accepted) for j = 0 … K - 1 of a full-length draft."""
    if variant.accepted is not None:
        law = variant.accepted
        return [sum(p for n, p in law.items() if n > j) for j in range(k)]
    result: list[float] = []
    reached = 1.0
    for j in range(k):
        conditional = variant.acceptance or []
        reached *= conditional[j] if j < len(conditional) else 0.0
        result.append(reached)
    return result
