"""The pure input of the analysis: a run, its starts and its cells as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from specgauge.record.documents import CellDocument, Launch, Margins, Outcome

DRIFT_ROLE = "drift"
PARTIAL = "partial start"
"""``excluded_because`` of the cells of a start that broke off."""


@dataclass(frozen=True)
class LogLine:
    """One line of a server's output."""

    t: float
    """Seconds on the cells' monotonic clock (the stamp less the launch's clock offset)."""
    stream: Literal["O", "E"]
    """Standard output or standard error."""
    text: str


@dataclass(frozen=True)
class LoadSetup:
    """A planned load: closed (``concurrency``) or open (``rate``, requests/s)."""

    name: str
    requests: int
    concurrency: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class SloSetup:
    """Limits in milliseconds that a request must meet to count for goodput."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


@dataclass(frozen=True)
class VariantSetup:
    """A variant as the manifest tells it."""

    name: str
    speculative_config: dict[str, Any] | None = None
    matched_baseline: str | None = None

    @property
    def k(self) -> int | None:
        """Tokens proposed at most per step; 0 without speculation, None where unknown."""
        if self.speculative_config is None:
            return 0
        value = self.speculative_config.get("num_speculative_tokens")
        return int(value) if value is not None else None


@dataclass(frozen=True)
class RunSetup:
    """What was planned: the part of the manifest that the analysis needs."""

    experiment: str
    run_id: str
    model: str
    baseline: str
    variants: tuple[VariantSetup, ...]
    loads: tuple[LoadSetup, ...]
    rounds: int = 1
    repeats: int = 1
    slo: SloSetup | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """Whole manifest, for what is only shown: machine, versions, git, workload."""

    @property
    def baseline_last(self) -> bool:
        """Whether the baseline was to be started once more at the very end."""
        experiment = self.facts.get("experiment")
        return isinstance(experiment, dict) and bool(experiment.get("baseline_last"))

    def variant(self, name: str) -> VariantSetup:
        """The variant called ``name``; one that the manifest does not list has no config."""
        return next((v for v in self.variants if v.name == name), VariantSetup(name))

    def load(self, name: str) -> LoadSetup | None:
        """The planned load called ``name``."""
        return next((x for x in self.loads if x.name == name), None)


@dataclass(frozen=True)
class Published:
    """One published number, to be set beside ours."""

    source: str
    conditions: tuple[tuple[str, str], ...]
    """GPU, model, version, settings, workload, client: name and value."""
    variant: str
    load: str
    metric: str
    basis: str
    value: float


@dataclass(frozen=True)
class CellRecord:
    """Records of one cell: variant x start x load x repeat."""

    variant: str
    start: int
    load: str
    repeat: int
    document: CellDocument | None
    """None: the cell was never finished in writing."""
    requests: pd.DataFrame
    """Columns of ``record.schema.REQUESTS``, one row a request."""
    chunks: pd.DataFrame
    """Columns of ``record.schema.CHUNKS``, one row a chunk with a token."""


@dataclass(frozen=True)
class StartRecord:
    """One server process from start to stop, and the cells measured on it."""

    variant: str
    start: int
    launch: Launch | None
    outcome: Outcome | None
    log: tuple[LogLine, ...]
    metrics: pd.DataFrame
    """Columns of ``record.schema.METRICS``."""
    cells: tuple[CellRecord, ...]
    """Measured cells, in time order."""
    warmup: tuple[CellRecord, ...] = ()
    """Warm-up batches, in time order; never measured cells."""
    first_call: CellRecord | None = None
    """Without a warm-up: the start's first request, sent once more after its last cell."""
    confirmations: tuple[CellRecord, ...] = ()
    """Repeats of frozen cells, under the frozen cell's load and repeat."""
    margins: Margins | None = None
    """How sure the model was where outputs left the baseline's."""
    telemetry: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns of ``record.schema.TELEMETRY``; empty where nothing watched a GPU."""

    def confirmation_of(self, cell: CellRecord) -> CellRecord | None:
        """The repeat that was to confirm the freezes of ``cell``."""
        wanted = (cell.load, cell.repeat)
        return next((c for c in self.confirmations if (c.load, c.repeat) == wanted), None)

    @property
    def partial(self) -> bool:
        """Whether the start did not end as planned: shown, left out of every headline."""
        return self.outcome is None or self.outcome.state != "complete"

    @property
    def round(self) -> int:
        """The round it counts for."""
        return self.outcome.round if self.outcome is not None else self.start

    @property
    def role(self) -> str:
        """``round``, or ``drift`` for the baseline once more at the end."""
        return self.outcome.role if self.outcome is not None else "round"


@dataclass(frozen=True)
class RunRecord:
    """A whole run."""

    setup: RunSetup
    starts: tuple[StartRecord, ...]
