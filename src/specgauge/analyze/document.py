"""The shape of ``analysis/summary.json``: every figure that a table or plot shows.

Schema ``specgauge.summary/1``.  Keys may be added; a renamed or removed one raises the number.
Times of reasons and points are seconds after the cell's first send.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from specgauge.analyze.machine_document import CpuFigures, GpuFigures
from specgauge.analyze.part import Part
from specgauge.analyze.started import Start
from specgauge.record.schema import SUMMARY_SCHEMA

Verdict = Literal["VALID", "SUSPECT", "INVALID"]
Severity = Literal["invalid", "suspect", "info", "unknown"]


class Reason(Part):
    """What one check saw, and what to do about it."""

    code: str
    severity: Severity
    detail: str
    """What was seen: times, counts, lines."""
    remedy: str | None = None
    cause: str | None = None
    t0: float | None = None
    t1: float | None = None
    scope: Literal["cell", "step", "claim"] = "cell"
    """What it bears on: the whole cell, its step figures alone, or one claim that it strikes.
    Only ``cell`` reasons make a cell's verdict."""
    evidence: dict[str, float | int | str | None] = {}


class Spread(Part):
    """A latency in milliseconds; a percentile is null without samples enough for it."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class StepSpread(Spread):
    """Step latency in milliseconds, beside the server's own mean."""

    server_mean: float | None = None
    merged_share: float | None = None
    """Decode chunks that hold more than one step / decode chunks."""


class LengthOverTime(Part):
    """Acceptance length through a cell, from the 5 Hz scrapes."""

    median: float | None = None
    min: float | None = None
    max: float | None = None
    points: list[tuple[float, float]] = []
    """(seconds after the first send, acceptance length)."""
    log_lines: list[tuple[float, float]] = []
    """The same from the server log's ten-second lines, in time order."""


class CrossCheckFigures(Part):
    """Counters against the stream."""

    accepted_server: float
    accepted_stream: float
    tail_allowed: float
    agrees: bool
    tokens_per_step: float | None
    identity: float | None
    """1 + coverage x (acceptance length - 1)."""


class StepCheck(Part):
    """Mean step latency by the client and by the server."""

    client_ms: float
    server_ms: float
    difference: float
    """client / server - 1"""
    agrees: bool


class GoodputFigures(Part):
    """Requests that met the SLO."""

    met: int
    of: int
    per_s: float | None


class Observed(Part):
    """A cell's figures as measured, nothing taken off."""

    requests: int
    """Planned."""
    failed: int
    """Planned requests that did not end well."""
    prompt_tokens: int
    output_tokens: int
    duration_s: float | None
    output_tok_s: float | None
    total_tok_s: float | None
    full_batch_tok_s: float | None
    request_s: float | None
    ttft_ms: Spread
    ttft_scheduled_ms: Spread | None
    """Open loads: from the scheduled arrival."""
    e2e_ms: Spread
    e2e_scheduled_ms: Spread | None
    tpot_ms: Spread
    step_ms: StepSpread
    goodput: GoodputFigures | None
    steps_from: Literal["stream", "server"] = "stream"
    """Who counted decode steps: chunks, or the server where chunks hold several."""
    tokens_per_step: float | None  # by token
    tokens_per_step_by_request: float | None = None
    """By request: the mean of the requests' own."""
    acceptance_length: float | None
    draft_coverage: float | None
    efficiency: float | None
    drafts: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    acceptance_by_position: list[float]
    """P(at least j accepted), j = 1, 2, …"""
    acceptance_distribution: list[float]
    """P(exactly j accepted), j = 0, 1, …"""
    acceptance_length_over_time: LengthOverTime
    acceptance_check: CrossCheckFigures | None
    step_check: StepCheck | None = None
    tokens_per_step_by_category: dict[str, float]
    prefix_cache_hit_rate: float | None
    uncached_prompt_tokens: float | None = None
    """Prompt tokens that the server had to read, by its counters."""
    joules_per_token: float | None
    """Energy of the card over the cell / output tokens."""
    gpu: GpuFigures | None = None
    """None without telemetry."""
    cpu: CpuFigures | None = None
    """None without accounts of CPU time."""


class Derived(Part):
    """Figures with an artefact taken off; never mixed with the observed ones."""

    frozen_s: float
    output_tok_s: float | None
    from_: str = Field(alias="from")
    """``chunks`` (measured between them), ``confirming repeat`` or ``prefill rate``."""
    verdict: Verdict
    confirmation: str | None = None
    """``CONFIRMED ONE-OFF``, ``NEW STALL``, ``RECURS``, ``UNCONFIRMED``; null: not repeated."""


class Cell(Part):
    """One cell with its verdict."""

    variant: str
    load: str
    start: int
    repeat: int
    round: int
    role: str
    concurrency: int | None
    rate: float | None
    excluded: bool
    """Left out of every comparison and headline."""
    excluded_because: str | None
    verdict: Verdict
    reasons: list[Reason]
    observed: Observed
    derived: Derived | None = None
    fingerprint: str | None = None
    """Short hash of what it was measured under; cells that may be compared share it."""
    timeline: list[tuple[float, float]] = []
    """Of a cell that stood still: (seconds after the first send, output tokens per second)."""


class Comparison(Part):
    """A variant against the baseline under one load; above 1 the variant is faster."""

    variant: str
    against: str
    """The baseline's name."""
    load: str
    metric: Literal["output_tok_s", "tpot"]
    basis: Literal["observed", "derived"]
    speedup: float | None
    low: float | None
    high: float | None
    rounds: int
    """Measured on both sides; copies of a round count once."""
    per_round: list[float]
    verdict: Verdict
    reasons: list[str]
    """Codes behind a verdict that is not VALID."""
    headline: bool = False
    """One of the claims that Holm's correction spans: output throughput of a closed load, TPOT of
    an open one."""
    p: float | None = None
    p_holm: float | None = None
    significant: bool | None = None
    """Whether a win or a loss is claimed; null where nothing can be claimed."""
    label: str | None = None
    """``INDICATIVE`` below three rounds."""
    notes: list[Reason] = []
    """Shown beside the row: forced traits, what is struck for too few rounds."""


class Recommendation(Part):
    """The setting to deploy for one load, in words that honour the verdicts."""

    load: str
    variant: str | None
    """None: nothing can be said."""
    speculative_config: dict[str, Any] | None
    claimed: bool
    """False: nothing is claimed (points only, or in doubt)."""
    text: str


class MissingCell(Part):
    """A planned cell that was not measured."""

    variant: str
    round: int
    load: str
    repeat: int
    role: str = "round"
    """``drift``: of the baseline once more at the end."""


class VariantFacts(Part):
    """A variant as run."""

    name: str
    speculative_config: dict[str, Any] | None
    matched_baseline: str | None = None


class LoadFacts(Part):
    """A load as planned."""

    name: str
    requests: int
    concurrency: int | None
    rate: float | None


class Reference(Part):
    """A published result beside ours."""

    source: str
    variant: str
    load: str
    theirs: float
    ours: float | None
    difference: float | None
    """ours / theirs - 1"""
    metric: str = "speedup"
    basis: Literal["observed", "derived"] = "observed"
    """``derived``: their author took something off."""
    verdict: Verdict | None = None
    """Of ours."""
    conditions: dict[str, str] = {}
    """Of theirs."""


class Summary(Part):
    """``analysis/summary.json``."""

    schema_: str = Field(default=SUMMARY_SCHEMA, alias="schema")
    experiment: str
    run_id: str
    model: str
    baseline: str
    baseline_measured: bool
    """False: cell verdicts only, no speed-ups."""
    rounds: int
    """Planned."""
    variants: list[VariantFacts]
    loads: list[LoadFacts]
    starts: list[Start]
    cells: list[Cell]
    comparisons: list[Comparison]
    matched_comparisons: list[Comparison] = []
    """Against the baseline that shares runner and scheduling: the same-runner speed-up."""
    references: list[Reference] = []
    missing: list[MissingCell]
    reasons: list[Reason]
    """What concerns the whole run: drift."""
    recommendations: list[Recommendation]
    environment: dict[str, Any] = {}
    """Machine, versions, git and workload, as the manifest has them."""
