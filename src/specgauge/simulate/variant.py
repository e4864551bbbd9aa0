"""What is planted for one speculative method: step times, drafts, acceptance, divergence."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from specgauge.simulate.base import TruthPart


class Affine(TruthPart):
    """Step time in ms: ``base + per_request * batch``."""

    base: float = Field(ge=0)
    per_request: float = Field(default=0.0, ge=0)


class Divergence(TruthPart):
    """Greedy output that differs from the other variants' in a share of the prompts."""

    fraction: float = Field(ge=0, le=1)
    from_position: int = Field(default=8, ge=0)
    by_batch: bool = False
    """Differ by the batch size at the request's first step instead of by the variant."""


class Variant(TruthPart):
    """What is particular to one section; ``step_ms`` null: the document's."""

    step_ms: dict[int, float] | Affine | None = None
    """Milliseconds of a step by batch size: a table (linear between its sizes, constant outside)
    or an affine law."""
    drafted_step_ms: float = Field(default=0.0, ge=0)
    """Added to a step in which at least one request verifies a draft."""
    coverage: float = Field(default=1.0, ge=0, le=1)
    """Probability that a request-step after the first has a draft (read only with a method)."""
    coverage_spread: float = Field(default=0.0, ge=0, le=1)
    """Prompts differ: each has the coverage times a factor of its own, uniform in 1 -/+ this."""
    acceptance: list[float] | None = None
    """P(position j accepted | all before it were), j = 0, 1, …; beyond the list nothing is."""
    accepted: dict[int, float] | None = None
    """Instead: distribution of the number of accepted tokens of a draft."""
    draft_lengths: dict[int, float] | None = None
    """Distribution of the drafts' lengths; null: always ``num_speculative_tokens``."""
    first_call_s: float = Field(default=0.0, ge=0)
    """Added to the first step of the process, before any first token; leaves no log line."""
    divergence: Divergence | None = None

    @field_validator("acceptance")
    @classmethod
    def _probabilities(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and any(not 0 <= p <= 1 for p in value):
            raise ValueError("each entry is a probability, 0 to 1")
        return value

    @field_validator("accepted", "draft_lengths")
    @classmethod
    def _distribution(cls, value: dict[int, float] | None) -> dict[int, float] | None:
        if value is not None and (
            min(value.values(), default=-1.0) < 0 or abs(sum(value.values()) - 1) > 1e-6
        ):
            raise ValueError("the probabilities must be 0 or more and sum to 1")
        return value

    @field_validator("draft_lengths")
    @classmethod
    def _not_empty(cls, value: dict[int, float] | None) -> dict[int, float] | None:
        if value is not None and min(value) < 1:
            raise ValueError("a draft has at least one token: no draft at all is 'coverage'")
        return value

    @field_validator("step_ms")
    @classmethod
    def _sizes(cls, value: Any) -> Any:
        return check_table(value)

    @model_validator(mode="after")
    def _one_law(self) -> Variant:
        if self.acceptance is not None and self.accepted is not None:
            raise ValueError("give 'acceptance' or 'accepted', not both")
        return self


def check_table(value: Any) -> Any:
    """Refuse a step table without sizes of 1 or more or with negative times."""
    if isinstance(value, dict) and (not value or min(value) < 1 or min(value.values()) < 0):
        raise ValueError("a table needs batch sizes of 1 or more and times of 0 or more")
    return value
