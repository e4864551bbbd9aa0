"""What a validity check may look at: one cell with its start, its counters and its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from specgauge.analyze import latency, steps, throughput
from specgauge.analyze.acceptance import Drafting, drafting
from specgauge.analyze.counters import Counters, Window
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import (
    CellRecord,
    LoadSetup,
    RunSetup,
    StartRecord,
    VariantSetup,
)


@dataclass(frozen=True)
class StartContext:
    """One start with what is computed once for all its cells."""

    record: StartRecord
    counters: Counters
    traits: EngineTraits


@dataclass(frozen=True)
class CellContext:
    """One cell."""

    cell: CellRecord
    start: StartContext
    setup: RunSetup
    baseline: EngineTraits | None = None
    """Traits of a baseline start to compare with; None for the baseline itself or without one."""
    first_measured: bool = False
    """It is the first measured cell of its start."""

    @property
    def variant(self) -> VariantSetup:
        """Its variant as planned."""
        return self.setup.variant(self.cell.variant)

    @property
    def load(self) -> LoadSetup:
        """Its load: as the cell's own document says, else as planned."""
        planned = self.setup.load(self.cell.load)
        document = self.cell.document
        if document is not None:
            return LoadSetup(
                self.cell.load, document.planned_requests, document.concurrency, document.rate
            )
        return planned or LoadSetup(self.cell.load, len(self.cell.requests))

    @property
    def requests(self) -> pd.DataFrame:
        """One row a request."""
        return self.cell.requests

    @property
    def chunks(self) -> pd.DataFrame:
        """One row a chunk."""
        return self.cell.chunks

    @cached_property
    def latencies(self) -> pd.DataFrame:
        """``latency.per_request`` of the cell."""
        return latency.per_request(self.requests, self.chunks)

    @cached_property
    def span(self) -> throughput.Span | None:
        """From the first send to the last chunk."""
        return throughput.duration(self.requests)

    @cached_property
    def window(self) -> Window | None:
        """The scrapes around the cell."""
        document = self.cell.document
        if document is None:
            return None
        return self.start.counters.window(document.t_begin, document.t_end)

    @cached_property
    def drafting(self) -> Drafting | None:
        """What the server counted of drafts."""
        return drafting(self.start.counters, self.window) if self.window else None

    @cached_property
    def merged(self) -> steps.Merged:
        """Merged chunks."""
        server = None
        if self.window and self.window.closed and (self.requests["state"] == "ok").all():
            server = steps.server_steps(self.start.counters, self.window)
        drafts = self.drafting.drafts if self.drafting else None
        return steps.merged(self.chunks, self.variant.k, drafts, server)

    def since_begin(self, t: float | None) -> float | None:
        """``t`` as seconds after the cell's first send."""
        return None if t is None or self.span is None else t - self.span.t0
