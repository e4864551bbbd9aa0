"""What a validity check may look at: one cell with its start, its counters and its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from specgauge.analyze import (
    confirmation,
    cpu,
    degenerate,
    freezes,
    latency,
    prefill,
    prefix_cache,
    steps,
    throughput,
)
from specgauge.analyze.acceptance import CrossCheck, Drafting, cross_check, drafting
from specgauge.analyze.confirmation import Confirmation
from specgauge.analyze.counters import Counters, Window
from specgauge.analyze.freezes import Freeze
from specgauge.analyze.log import lines
from specgauge.analyze.log.lines import JitLine
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import (
    CellRecord,
    LoadSetup,
    RunSetup,
    StartRecord,
    VariantSetup,
)
from specgauge.analyze.silences import Silence
from specgauge.analyze.telemetry import Telemetry

JIT_LATE_S = 0.1
"""A line is stamped when it arrives: up to this long after the step's chunk."""


@dataclass(frozen=True)
class StartContext:
    """One start with what is computed once for all its cells."""

    record: StartRecord
    counters: Counters
    traits: EngineTraits

    @property
    def version(self) -> str | None:
        """vLLM's, as the server told it, else as its log did."""
        outcome = self.record.outcome
        return (outcome.vllm_version if outcome else None) or self.traits.vllm_version

    @cached_property
    def telemetry(self) -> Telemetry:
        """What its GPU told."""
        return Telemetry(self.record.telemetry)

    @cached_property
    def jit_lines(self) -> list[JitLine]:
        """Compiles that the log reports, in time order."""
        return lines.all_jit(self.record.log)


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
    pool: tuple[prefill.Sample, ...] = ()
    """Prefill samples of the whole run; without any, the cell's own."""

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

    @property
    def whole_window(self) -> Window | None:
        """``window`` where a scrape lies on either side: only then do counters tell all of it."""
        return self.window if self.window is not None and self.window.closed else None

    @cached_property
    def cpu_window(self) -> Window | None:
        """The samples of CPU accounts around the cell's load; None where none lie near it."""
        return cpu.around(self.start.counters, self.span) if self.span else None

    @cached_property
    def drafting(self) -> Drafting | None:
        """What the server counted of drafts."""
        window = self.whole_window
        return drafting(self.start.counters, window) if window else None

    @cached_property
    def acceptance_check(self) -> CrossCheck | None:
        """Accepted tokens by the server against the stream's; None without a draft."""
        if self.drafting is None or not self.drafting.drafts:
            return None
        return cross_check(self.drafting, self.chunks, self.variant.k, self.merged.chunks)

    @cached_property
    def server_steps(self) -> int | None:
        """Request-steps after the first token by the server's count; None unless all ended well."""
        window = self.whole_window
        if window is None or (self.requests["state"] != "ok").any():
            return None
        return steps.server_steps(self.start.counters, window)

    @cached_property
    def merged(self) -> steps.Merged:
        """Merged chunks."""
        drafts = self.drafting.drafts if self.drafting else None
        return steps.merged(self.chunks, self.variant.k, drafts, self.server_steps)

    @property
    def steps_by_server(self) -> int | None:
        """``server_steps`` where merged chunks make the stream's own count useless, else None.

        None too where the server counted no more of them than there are chunks.
        """
        counted, seen = self.server_steps, self.merged
        if seen.share <= steps.MERGED_LIMIT or counted is None or counted <= seen.of:
            return None
        return counted

    @property
    def on_gpu(self) -> bool:
        """The run's servers were given a GPU."""
        return bool(self.setup.facts.get("gpu"))

    def since_begin(self, t: float | None) -> float | None:
        """``t`` as seconds after the cell's first send."""
        return None if t is None or self.span is None else t - self.span.t0

    @cached_property
    def hit_rate(self) -> float | None:
        """Share of its prompt tokens that the prefix cache had."""
        window = self.whole_window
        return prefix_cache.hit_rate(self.start.counters, window) if window else None

    @cached_property
    def uncached_tokens(self) -> float | None:
        """Prompt tokens that the server had to read, by its counters."""
        window = self.whole_window
        if window is None or self.hit_rate is None:
            return None
        queries = self.start.counters.delta("vllm:prefix_cache_queries_total", window)
        return None if queries is None else queries * (1 - self.hit_rate)

    @cached_property
    def freezes(self) -> list[Freeze]:
        """Spans in which the engine stood still."""
        return freezes.find(self.requests, self.chunks, self.hit_rate, self._prefill, self._ahead)

    @cached_property
    def unjudged(self) -> list[Silence]:
        """Long silences of which nobody can say how much was prefill."""
        return freezes.unjudged(
            self.requests, self.chunks, self.hit_rate, self._prefill, self._ahead
        )

    @property
    def _ahead(self) -> float:
        return self.start.traits.tokens_ahead

    @cached_property
    def _prefill(self) -> tuple[prefill.Sample, ...]:
        return self.pool or prefill.samples(self.requests, self.chunks, self.hit_rate)

    def jit_lines_in(self, freeze: Freeze) -> list[JitLine]:
        """Compile lines inside a freeze: they are written after the compile, before the chunk.

        One that comes late after this freeze and lies inside the next one is the next one's.
        """
        silence = freeze.silence
        others = [f.silence for f in self.freezes if f is not freeze]
        return [
            line
            for line in self.start.jit_lines
            if silence.t0 <= line.t <= silence.t1
            or (
                silence.t1 < line.t <= silence.t1 + JIT_LATE_S
                and not any(s.t0 <= line.t <= s.t1 for s in others)
            )
        ]

    @cached_property
    def repeat(self) -> CellContext | None:
        """The complete repeat that was to confirm its freezes."""
        found = self.start.record.confirmation_of(self.cell)
        if found is None or found.document is None or found.document.state != "complete":
            return None
        if not len(found.requests) or (found.requests["state"] != "ok").any():
            return None
        return CellContext(found, self.start, self.setup, self.baseline, False, self.pool)

    @cached_property
    def confirmation(self) -> Confirmation | None:
        """What the repeat says; None without a freeze or a repeat."""
        repeat = self.repeat
        if not self.freezes or repeat is None:
            return None
        documents = (self.cell.document, repeat.cell.document)
        alike = confirmation.prefill_agrees(
            self.uncached_tokens,
            repeat.uncached_tokens,
            len(self.requests),
            all(d is not None and d.prefix_cache_was_reset for d in documents),
        )
        return confirmation.judge(self.freezes, repeat.freezes, alike)

    @property
    def eos(self) -> tuple[int, ...]:
        """Tokens that end an answer, where the model's file names them."""
        model = self.setup.facts.get("model")
        named = model.get("eos_token_ids") if isinstance(model, dict) else None
        return tuple(named) if isinstance(named, list) else ()

    @cached_property
    def degeneration(self) -> degenerate.Degeneration | None:
        """Repetition and text after the end in its outputs."""
        return degenerate.measure(self.chunks, self.eos)

    @cached_property
    def latencies_before(self) -> pd.DataFrame:
        """``latencies`` of its outputs up to where they degenerate."""
        return latency.per_request(*degenerate.before(self.requests, self.chunks, self.eos))
