"""One server start: launch, warm up, measure every cell, stop for certain."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from specgauge.config.project import Project
from specgauge.config.prompts import Prompt
from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault, SpecgaugeError
from specgauge.load.plan import CellPlan, LoadProgress
from specgauge.plan import StartPlan, cells
from specgauge.record.atomic import write_json, write_parquet
from specgauge.record.documents import CellDocument, Launch, Outcome
from specgauge.record.layout import (
    CONFIRM,
    FIRST_CALL,
    PREFILL,
    WARMUP,
    CellPaths,
    RunPaths,
    StartPaths,
    is_measured,
)
from specgauge.record.schema import PROMPTS
from specgauge.run import margins
from specgauge.run.cell import CellPlace, measure
from specgauge.run.client import Client
from specgauge.run.command import Command, build, compile_cache
from specgauge.run.confirm import Frozen, frozen_cells
from specgauge.run.interrupts import uninterrupted
from specgauge.run.observer import Observer
from specgauge.run.progress import Progress
from specgauge.run.requests import Tokenized, cell_plan, prefill_plan, warmup_plan
from specgauge.run.runtime import Runtime
from specgauge.scrape.process import Scraper
from specgauge.serve.protocol import Server, ServerDied, ServerSpec
from specgauge.serve.redact import strike_out_args


@dataclass
class StartResult:
    """How a start went."""

    state: Literal["complete", "failed"]
    error: str | None = None
    ready: bool = False
    """The server had become ready; if not, starting it again will hardly help."""
    server_died: bool = False
    vllm_version: str | None = None
    incomplete_cells: list[str] = field(default_factory=list)


def steps_of(resolved: Resolved, plan: StartPlan) -> list[Hashable]:
    """Kinds of steps of a start, for the progress line."""
    loads = [slot.load.name for slot in cells(resolved.experiment)]
    warm = [WARMUP] if resolved.experiment.warmup else [FIRST_CALL]
    return [("launch",), *[(name,) for name in warm], *[(name,) for name in loads], ("stop",)]


class Start:
    """Makes one planned start in its own folder ``<variant>/start-<k>/``."""

    def __init__(
        self,
        resolved: Resolved,
        project: Project,
        run: RunPaths,
        plan: StartPlan,
        k: int,
        model: str,
        progress: Progress,
        runtime: Runtime,
        observer: Observer,
    ) -> None:
        self._resolved = resolved
        self._experiment = resolved.experiment
        self._run = run
        self._plan = plan
        self._k = k
        self._paths: StartPaths = run.start(plan.variant, k)
        self._progress = progress
        self._observer = observer
        self._cache = compile_cache(
            self._experiment, run.folder.name, plan.variant, k, runtime.compile_base()
        )
        self._command: Command = build(
            resolved, resolved.variants[plan.variant], project, model, self._cache, runtime
        )
        server = self._experiment.server
        host, port = runtime.reach(server, plan.variant)
        self._spec = ServerSpec(
            id=f"{run.folder.name}-{plan.variant}-{k}-{secrets.token_hex(4)}",
            argv=self._command.argv,
            env=self._command.env,
            host=host,
            port=port,
            paths=self._paths,
            cwd=str(project.root),
            ready_timeout_s=server.ready_timeout_s,
            stop_grace_s=server.stop_grace_s,
            caches=self._command.caches,
        )
        one_time = self._cache if self._experiment.compile_cache == "fresh" else None
        self._runtime_is_local = runtime.name == "process"
        self._server: Server = runtime.server(self._spec, server, one_time)
        self._client = Client(self._spec.url, resolved.model.name)
        self._result = StartResult("failed")

    @property
    def title(self) -> str:
        """For people: which start this is."""
        if self._plan.role == "drift":
            return f"{self._plan.variant} (again, for drift)"
        rounds = self._experiment.rounds
        suffix = f" round {self._plan.round + 1}/{rounds}" if rounds > 1 else ""
        return f"{self._plan.variant}{suffix}"

    def make(self) -> StartResult:
        """Run it from launch to stop.  Whatever happens, the server and its tree are gone after.

        Raises:
            EnvironmentFault: nothing can be measured here at all (port taken, disk full, …).
            UsageError: the prompts do not fit the model.
            KeyboardInterrupt: interrupted; what was measured is kept, the start counts as partial.
        """
        state: Literal["complete", "failed", "interrupted"] = "failed"
        error: str | None = None
        scraper: Scraper | None = None
        self._observer.start_begins(self._run.folder.name, self._plan.variant, self._k)
        try:
            with self._step(("launch",), "starting the server"):
                self._server.start()
                self._server.wait_ready(self._progress.tick)
            self._result.ready = True
            self._result.vllm_version = self._client.version()
            self._check_version()
            scraper = Scraper(self._spec.url, self._paths.metrics, self._server_pid())
            scraper.start()
            self._measure_all()
            self._result.state = state = "failed" if self._result.incomplete_cells else "complete"
            if self._result.incomplete_cells:
                error = "; ".join(self._result.incomplete_cells)
        except ServerDied as died:
            self._result.server_died = True
            error = str(died)
        except KeyboardInterrupt:
            state, error = "interrupted", "interrupted"
            raise
        except SpecgaugeError as fault:
            # A call that fails because the server has just died is the server's failure: the
            # other variants go on.
            death = self._server.death() if self._result.ready else None
            error = str(fault) if death is None else f"the server ended: {death}"
            if death is None:
                raise
            self._result.server_died = True
        finally:
            self._result.error = error
            with uninterrupted(), self._step(("stop",), "stopping the server"):
                self._finish(scraper, state, error)
        return self._result

    def _server_pid(self) -> int | None:
        """The server's process, where it is one of this system's."""
        if not self._runtime_is_local:
            return None
        try:
            launch = Launch.model_validate_json(self._paths.launch.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return launch.pid

    def _check_version(self) -> None:
        wanted, found = self._experiment.server.vllm_version, self._result.vllm_version
        if wanted is not None and found != wanted:
            raise EnvironmentFault(
                f"the server is vLLM {found}, but experiment {self._experiment.name!r} is about "
                f"vLLM {wanted} ('server: vllm_version:' in {self._resolved.path})"
            )

    def _measure_all(self) -> None:
        experiment = self._experiment
        prompts = self._tokenized()
        first = None
        if experiment.warmup is not None:
            with self._step((WARMUP,), "warming up"):
                self._warm_up()
        for slot in cells(experiment):
            plan = cell_plan(
                experiment, slot.load, prompts, self._spec.url, self._resolved.model.name
            )
            first = first or plan
            name = slot.load.name
            repeat = f" repeat {slot.repeat + 1}/{experiment.repeats}"
            title = name + (repeat if experiment.repeats > 1 else "")
            with self._step((name,), title):
                self._cell(name, slot.repeat, plan)
        if experiment.warmup is None and first is not None:
            with self._step((FIRST_CALL,), "first request once more"):
                self._repeat_first(prompts[0], first)
        if experiment.confirm and not self._result.incomplete_cells:
            self._confirm(prompts)
        if experiment.sampling.temperature == 0 and not self._result.incomplete_cells:
            self._ask_margins(prompts)

    def _warm_up(self) -> None:
        """The first prompt alone, the same again (what the first call cost), then the batches."""
        experiment, tokenized = self._experiment, self._resolved.warmup_prompts
        assert experiment.warmup is not None
        assert tokenized is not None
        tokens = experiment.warmup.output_tokens
        needed = 1 + sum(experiment.warmup.batches)
        prompts = [self._tokenize(p, tokens) for p in tokenized.first(needed, "the warm-up")]
        groups = [prompts[:1], prompts[:1]]
        at = 1
        for size in experiment.warmup.batches:
            groups.append(prompts[at : at + size])
            at += size
        for number, group in enumerate(groups):
            plan = warmup_plan(experiment, group, tokens, self._spec.url, self._resolved.model.name)
            self._cell(WARMUP, number, plan)

    def _repeat_first(self, prompt: Tokenized, first: CellPlan) -> None:
        """Without a warm-up: the start's first request again, to see what being first cost it."""
        plan = warmup_plan(
            self._experiment,
            [prompt],
            first.requests[0].max_tokens,
            self._spec.url,
            self._resolved.model.name,
        )
        self._cell(FIRST_CALL, 0, plan)

    def _confirm(self, prompts: list[Tokenized]) -> None:
        """Repeat the cells that froze, after all others, so that no measured cell notices.

        A repeat that fails leaves its cell unconfirmed and the start complete.
        """
        for cell in frozen_cells(self._run, self._plan.variant, self._k):
            name = CONFIRM + cell.load
            title = f"{cell.load} stood still for {cell.seconds:.1f} s: once more"
            try:
                with self._step((name,), title):
                    self._repeat_frozen(cell, prompts)
            except ServerDied as died:
                self._progress.note(f"{self.title}: not confirmed: {died}", "yellow")
                return

    def _repeat_frozen(self, cell: Frozen, prompts: list[Tokenized]) -> None:
        """Put the prefix cache back as the cell found it, then send its requests again."""
        experiment, url, model = self._experiment, self._spec.url, self._resolved.model.name
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
                self._cell(PREFILL, at, prefill_plan(experiment, prompts[:before], url, model))
        plan = cell_plan(experiment, slots[at].load, prompts, url, model)
        self._cell(CONFIRM + cell.load, cell.repeat, plan, reset)

    def _ask_margins(self, prompts: list[Tokenized]) -> None:
        """Where greedy outputs left the baseline's: how sure was the model there?"""
        with self._step(("margins",), "outputs compared with the baseline's"):
            margins.ask(
                self._client,
                self._run,
                self._plan,
                self._k,
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

        with self._observer.cell(load, repeat):
            cell: CellDocument = measure(
                CellPlace(self._plan.variant, self._k, load, repeat),
                plan,
                self._paths.cell(load, repeat),
                self._experiment,
                reset,
                self._experiment.settle_s if counted else 0.0,
                show,
                self._server.death,
            )
        if (death := self._server.death()) is not None:
            raise ServerDied(f"the server ended during {load}: {death}")
        if repeats or load == PREFILL:
            return
        if cell.state != "complete":
            self._result.incomplete_cells.append(f"{load}: {cell.error}")
        elif failed := _failed_requests(self._paths.cell(load, repeat)):
            self._result.incomplete_cells.append(f"{load}: {failed}")

    def _tokenized(self) -> list[Tokenized]:
        """The run's prompts with their token ids: made by the first server, kept for all others."""
        count = max(load.requests for load in self._experiment.loads)
        prompts = self._resolved.prompts.first(count, "the experiment")
        path = self._run.prompts
        if path.exists():
            rows = pq.read_table(path).to_pylist()
            ids = {row["prompt_id"]: tuple(row["token_ids"]) for row in rows}
            if all(prompt.id in ids for prompt in prompts):
                kept = [(prompt, ids[prompt.id]) for prompt in prompts]
                if self._tokenize(prompts[0], self._experiment.output_tokens) != kept[0]:
                    raise EnvironmentFault(
                        f"this server tokenizes prompt {prompts[0].id!r} differently than the "
                        f"run's first one did ({path}): another tokenizer or chat template"
                    )
                return kept
        made = [self._tokenize(prompt, self._experiment.output_tokens) for prompt in prompts]
        rows = [
            {"prompt_id": p.id, "category": p.category, "text": p.text, "token_ids": list(ids)}
            for p, ids in made
        ]
        write_parquet(path, pa.Table.from_pylist(rows, schema=PROMPTS))
        return made

    def _tokenize(self, prompt: Prompt, room: int) -> Tokenized:
        experiment = self._experiment
        kwargs = dict(self._resolved.model.chat_template_kwargs)
        return prompt, self._client.tokenize(prompt, experiment.chat_template, kwargs, room)

    def _finish(
        self,
        scraper: Scraper | None,
        state: Literal["complete", "failed", "interrupted"],
        error: str | None,
    ) -> None:
        self._client.close()
        try:
            if scraper is not None:
                scraper.stop()
        except EnvironmentFault as fault:
            if state == "complete":
                self._result.state = state = "failed"
            self._result.error = error = f"{error}; {fault}" if error else str(fault)
        finally:
            self._server.stop()
            if self._experiment.compile_cache == "fresh" and self._cache is not None:
                shutil.rmtree(self._cache, ignore_errors=True)
        if not self._paths.folder.is_dir():
            return
        outcome = Outcome(
            variant=self._plan.variant,
            start=self._k,
            round=self._plan.round,
            role=self._plan.role,
            state=state,
            error=error,
            vllm_version=self._result.vllm_version,
            server_died=self._result.server_died,
            speculative_config=strike_out_args(self._command.speculative_config),
        )
        write_json(self._paths.outcome, outcome.model_dump(mode="json"))

    @contextlib.contextmanager
    def _step(self, kind: Hashable, what: str) -> Iterator[None]:
        self._progress.begin(kind, f"{self.title} · {what}")
        yield
        self._progress.end(kind)


def _failed_requests(paths: CellPaths) -> str | None:
    """How many requests of a cell failed, and why the first did; None if all went well."""
    rows = pq.read_table(paths.requests, columns=["state", "error"]).to_pylist()
    failed = [row for row in rows if row["state"] != "ok"]
    if not failed:
        return None
    return f"{len(failed)} of {len(rows)} requests failed: {failed[0]['error']}"


def free_start(run: RunPaths, variant: str) -> int:
    """The next start number of ``variant``: earlier folders, partial ones too, stay as they are."""
    taken = [k for name, k, _ in run.starts() if name == variant]
    return max(taken, default=-1) + 1
