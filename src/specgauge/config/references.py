"""Published results to set beside ours, each with its conditions (``config/references``)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specgauge.analyze.records import Published
from specgauge.config.base import StrictModel, load
from specgauge.config.project import Project

Metric = Literal[
    "speedup", "output_tok_s", "tpot_ms", "ttft_ms", "duration_s", "acceptance_length",
    "tokens_per_step", "draft_coverage",
]  # fmt: skip


class Conditions(StrictModel):
    """Under what it was measured: a number without them compares with nothing."""

    gpu: str
    model: str
    vllm: str
    settings: str
    """K and window of each variant."""
    workload: str
    client: str


class Result(StrictModel):
    """One published number."""

    variant: str
    load: str
    """``c16``, ``r4.0``: the concurrency or rate it was measured at."""
    metric: Metric
    basis: Literal["observed", "derived"] = "observed"
    """``derived``: their author took something off."""
    value: float = Field(gt=0)


class ReferenceFile(StrictModel):
    """One source."""

    source: str
    conditions: Conditions
    results: list[Result] = Field(min_length=1)


def published(project: Project) -> tuple[Published, ...]:
    """Every result of ``config/references``, by file then as listed.

    Raises:
        UsageError: a file does not fit; with file, line and key.
    """
    found: list[Published] = []
    for path in sorted(project.config("references").glob("*.yaml")):
        file = load(ReferenceFile, path)
        conditions = tuple(file.conditions.model_dump().items())
        found += [
            Published(file.source, conditions, r.variant, r.load, r.metric, r.basis, r.value)
            for r in file.results
        ]
    return tuple(found)
