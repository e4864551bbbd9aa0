"""What is sent to a server that has become ready: warm-up, cells, repeats, margins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.parquet as pq

from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault
from specgauge.load.plan import CellPlan, LoadProgress
from specgauge.plan import StartPlan, cells
from specgauge.record.documents import CellDocument
from specgauge.record.layout import (
    CONFIRM,
    FIRST_CALL,
    PREFILL,
    WARMUP,
    CellPaths,
    RunPaths,
    is_measured,
)
from specgauge.run import margins
from specgauge.run.cell import CellPlace, measure
from specgauge.run.client import Client
from specgauge.run.confirm import Frozen, frozen_cells
from specgauge.run.observer import Observer
from specgauge.run.progress import Progress
from specgauge.run.prompts import PromptTokens
from specgauge.run.requests import Tokenized, cell_plan, prefill_plan, warmup_plan
from specgauge.serve.protocol import ServerDied


@dataclass(frozen=True)
class Place:
    """Which start it is, and where its records go."""

    run: RunPaths
    plan: StartPlan
    k: int
    title: str


class Measuring:
    """All requests of one start, in their order.

    ``death`` says how the server ended, None while it lives.
    """

    def __init__(
        self,
        resolved: Resolved,
        place: Place,
        client: Client,
        url: str,
        progress: Progress,
        observer: Observer,
        death: Callable[[], str | None],
    ) -> None:
        self._resolved = resolved
        self._experiment = resolved.experiment
        self._place = place
        self._paths = place.run.start(place.plan.variant, place.k)
        self._client = client
        self._url = url
        self._model = resolved.model.name
        self._progress = progress
        self._observer = observer
        self._death = death
        self._tokens = PromptTokens(resolved, client, place.run.prompts)
        self.incomplete: list[str] = []
        """Cells that were not measured whole, and why; grows as they are found."""
        self._hit_rates: dict[tuple[str, int], float] = {}
        """Share of a cell's prompt tokens that the prefix cache had, where the server tells."""

    def all(self) -> None:
        """Warm-up, every cell, repeats of frozen cells, margins.

        Raises:
            ServerDied: it ended meanwhile; what was measured is kept.
            UsageError: the prompts do not fit the model.
            EnvironmentFault: nothing can be measured.
        """
        experiment = self._experiment
        prompts = self._tokens.measured()
        first = None
        if experiment.warmup is not None:
            with self._step(WARMUP, "warming up"):
                self._warm_up()
        for slot in cells(experiment):
            plan = cell_plan(experiment, slot.load, prompts, self._url, self._model)
            first = first or plan
            name = slot.load.name
            repeat = f" repeat {slot.repeat + 1}/{experiment.repeats}"
            title = name + (repeat if experiment.repeats > 1 else "")
            with self._step(name, title):
                self._cell(name, slot.repeat, plan)
        if experiment.warmup is None and first is not None:
            with self._step(FIRST_CALL, "first request once more"):
                self._repeat_first(prompts[0], first)
        if experiment.confirm and not self.incomplete:
            self._confirm(prompts)
        if experiment.sampling.temperature == 0 and not self.incomplete:
            self._ask_margins(prompts)

    def _warm_up(self) -> None:
        """The first prompt alone, the same again (what the first call cost), then the batches."""
        experiment, tokenized = self._experiment, self._resolved.warmup_prompts
        assert experiment.warmup is not None
        assert tokenized is not None
        tokens = experiment.warmup.output_tokens
        needed = 1 + sum(experiment.warmup.batches)
        prompts = [
            self._tokens.of(prompt, tokens) for prompt in tokenized.first(needed, "the warm-up")
        ]
        groups = [prompts[:1], prompts[:1]]
        at = 1
        for size in experiment.warmup.batches:
            groups.append(prompts[at : at + size])
            at += size
        for number, group in enumerate(groups):
            plan = warmup_plan(experiment, group, tokens, self._url, self._model)
            self._cell(WARMUP, number, plan)

    def _repeat_first(self, prompt: Tokenized, first: CellPlan) -> None:
        """Without a warm-up: the start's first request again, to see what being first cost it."""
        tokens = first.requests[0].max_tokens
        plan = warmup_plan(self._experiment, [prompt], tokens, self._url, self._model)
        self._cell(FIRST_CALL, 0, plan)

    def _confirm(self, prompts: list[Tokenized]) -> None:
        """Repeat the cells that froze, after all others, so that no measured cell notices.

        A repeat that fails leaves its cell unconfirmed and the start complete.
        """
        place = self._place
        for cell in frozen_cells(place.run, place.plan.variant, place.k, self._hit_rates):
            name = CONFIRM + cell.load
            title = f"{cell.load} stood still for {cell.seconds:.1f} s: once more"
            try:
                with self._step(name, title):
                    self._repeat_frozen(cell, prompts)
            except ServerDied as died:
                self._progress.note(f"{place.title}: not confirmed: {died}", "yellow")
                return

    def _repeat_frozen(self, cell: Frozen, prompts: list[Tokenized]) -> None:
        """Put the prefix cache back as the cell found it, then send its requests again."""
        experiment = self._experiment
        slots = cells(experiment)
        at = next(
            i for i, s in enumerate(slots) if (s.load.name, s.repeat) == (cell.load, cell.repeat)
        )
        reset = False
        if experiment.prefix_cache == "keep":
            with contextlib.suppress(EnvironmentFault):  # then the analysis sees another cache
                self._client.reset_prefix_cache()
                reset = True
            before = max((slot.load.requests for slot in slots[:at]), default=0)
            if reset and before:
                plan = prefill_plan(experiment, prompts[:before], self._url, self._model)
                self._cell(PREFILL, at, plan)
        plan = cell_plan(experiment, slots[at].load, prompts, self._url, self._model)
        self._cell(CONFIRM + cell.load, cell.repeat, plan, reset)

    def _ask_margins(self, prompts: list[Tokenized]) -> None:
        """Where greedy outputs left the baseline's: how sure was the model there?"""
        with self._step("margins", "outputs compared with the baseline's"):
            margins.ask(
                self._client,
                self._place.run,
                self._place.plan,
                self._place.k,
                self._experiment.baseline,
                {prompt.id: ids for prompt, ids in prompts},
            )

    def _cell(self, load: str, repeat: int, plan: CellPlan, was_reset: bool = False) -> None:
        reset = self._experiment.prefix_cache == "reset" or was_reset
        if self._experiment.prefix_cache == "reset":
            self._client.reset_prefix_cache()
        total = len(plan.requests)
        repeats = load.startswith(CONFIRM)
        counted = is_measured(load) or repeats

        def show(seen: LoadProgress) -> None:
            failed = f", {seen.failed} failed" if seen.failed else ""
            text = f"{seen.done}/{total} requests{failed}, {seen.tokens} tokens"
            expected = total * plan.requests[0].max_tokens
            self._progress.tick(text, min(1.0, max(seen.done / total, seen.tokens / expected)))

        paths = self._paths.cell(load, repeat)
        keeps = is_measured(load) and self._experiment.prefix_cache == "keep"
        before = self._client.prefix_cache() if keeps else None
        with self._observer.cell(load, repeat):
            cell: CellDocument = measure(
                CellPlace(self._place.plan.variant, self._place.k, load, repeat),
                plan,
                paths,
                self._experiment,
                reset,
                self._experiment.settle_s if counted else 0.0,
                show,
                self._death,
            )
        if (death := self._death()) is not None:
            raise ServerDied(f"the server ended during {load}: {death}")
        if repeats or load == PREFILL:
            return
        after = self._client.prefix_cache() if before is not None else None
        if before is not None and after is not None and after[0] > before[0]:
            self._hit_rates[load, repeat] = (after[1] - before[1]) / (after[0] - before[0])
        if cell.state != "complete":
            self.incomplete.append(f"{load}: {cell.error}")
        elif failed := _failed_requests(paths):
            self.incomplete.append(f"{load}: {failed}")

    def _step(self, kind: str, what: str) -> contextlib.AbstractContextManager[None]:
        return self._progress.step((kind,), f"{self._place.title} · {what}")


def _failed_requests(paths: CellPaths) -> str | None:
    """How many requests of a cell failed, and why the first did; None if all went well."""
    rows = pq.read_table(paths.requests, columns=["state", "error"]).to_pylist()
    failed = [row for row in rows if row["state"] != "ok"]
    if not failed:
        return None
    return f"{len(failed)} of {len(rows)} requests failed: {failed[0]['error']}"
