"""What a drafter is worth: acceptance replayed along known greedy answers. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Acceptance:
    """Counts over verification steps; add up with `+`.

    drafts: steps that verified a draft; accepted: by position, how often it was accepted.
    """

    drafts: int = 0
    accepted: list[int] = field(default_factory=list)

    def __add__(self, other: Acceptance) -> Acceptance:
        """Pool the counts of two sets of steps."""
        if not (self.accepted and other.accepted):
            return self if self.accepted else other
        pairs = zip(self.accepted, other.accepted, strict=True)
        return Acceptance(self.drafts + other.drafts, [a + b for a, b in pairs])

    @property
    def length(self) -> float:
        """Mean acceptance length, ``1 + accepted / drafts``: vLLM's definition."""
        return 1 + sum(self.accepted) / self.drafts if self.drafts else float("nan")

    @property
    def rates(self) -> list[float]:
        """Per position: the share of drafts whose tokens up to that position were accepted."""
        return [count / self.drafts for count in self.accepted] if self.drafts else []

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON, rates rounded to four places."""
        return {
            "length": round(self.length, 4) if self.drafts else None,
            "rates": [round(rate, 4) for rate in self.rates],
            "drafts": self.drafts,
            "accepted": self.accepted,
        }


def replay(accepted_from: list[int], tokens: int, positions: int) -> Acceptance:
    """Replay greedy speculative decoding of one answer.

    accepted_from: for answer index i, how many draft tokens after token i would be accepted if a
    draft were made there (0..positions). tokens: answer tokens to produce, the first by prefill.
    With greedy drafting and verification the output is the target's own, so the steps that a
    server would take follow from these numbers: a step at i yields ``accepted_from[i] + 1``.
    """
    result = Acceptance(0, [0] * positions)
    produced = 1
    while produced < tokens:
        accepted = accepted_from[produced - 1]
        result.drafts += 1
        for position in range(accepted):
            result.accepted[position] += 1
        produced += accepted + 1
    return result
