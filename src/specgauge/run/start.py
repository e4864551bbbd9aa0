"""One server start: launch, warm up, measure every cell, stop for certain."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault, SpecgaugeError
from specgauge.gpu.recorder import Recorder
from specgauge.interrupts import uninterrupted
from specgauge.plan import StartPlan, cells
from specgauge.record.atomic import write_json
from specgauge.record.documents import Launch, Outcome
from specgauge.record.layout import FIRST_CALL, WARMUP, RunPaths, StartPaths
from specgauge.record.runs import point_latest
from specgauge.run.client import Client
from specgauge.run.command import Command, build, compile_cache
from specgauge.run.death import explained
from specgauge.run.measuring import Measuring, Place
from specgauge.run.observer import Observer
from specgauge.run.progress import Progress
from specgauge.run.runtime import Runtime
from specgauge.run.telemetry import recorder_for
from specgauge.scrape.process import Scraper
from specgauge.serve.diagnosis import Kind
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
    died_of: Kind | None = None
    """What its log says of its end (serve/diagnosis.py)."""
    vllm_version: str | None = None


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
        self._results = project.results
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
        self._recorder: Recorder | None = None
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
            with self._step("launch", "starting the server"):
                self._server.start()
                point_latest(self._results, self._run.folder)  # not before: it may be refused
                self._server.wait_ready(self._progress.tick)
            self._result.ready = True
            self._result.vllm_version = self._client.version()
            self._check_version()
            scraper = Scraper(self._spec.url, self._paths.metrics, self._server_pid())
            scraper.start()
            self._recorder = recorder_for(self._server, self._run, self._paths, os.environ)
            if self._recorder is not None:
                self._recorder.start()
            measuring = Measuring(
                self._resolved,
                Place(self._run, self._plan, self._k, self.title),
                self._client,
                self._spec.url,
                self._progress,
                self._observer,
                self._server.death,
            )
            measuring.all()
            self._result.state = state = "failed" if measuring.incomplete else "complete"
            error = "; ".join(measuring.incomplete) or None
        except ServerDied as died:
            error = self._died(str(died))
        except KeyboardInterrupt:
            state, error = "interrupted", "interrupted"
            raise
        except SpecgaugeError as fault:
            # A call that fails because the server has just died is the server's failure: the
            # other variants go on.
            death = self._server.death() if self._result.ready else None
            error = str(fault)
            if death is None:
                raise
            error = self._died(f"the server ended: {death}")
        finally:
            self._result.error = error
            with uninterrupted(), self._step("stop", "stopping the server"):
                self._finish(scraper, state, error)
        return self._result

    def _died(self, how: str) -> str:
        """Note that the server died; what to tell of it."""
        death = explained(how, self._paths.server_log, self._resolved)
        self._result.server_died, self._result.died_of = True, death.kind
        return death.message

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
            if self._recorder is not None and (unwatched := self._recorder.stop()) is not None:
                self._progress.note(unwatched, "yellow")  # the cells say: CO_TENANT unknown
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

    def _step(self, kind: str, what: str) -> contextlib.AbstractContextManager[None]:
        return self._progress.step((kind,), f"{self.title} · {what}")


def free_start(run: RunPaths, variant: str) -> int:
    """The next start number of ``variant``: earlier folders, partial ones too, stay as they are."""
    taken = [k for name, k, _ in run.starts() if name == variant]
    return max(taken, default=-1) + 1
