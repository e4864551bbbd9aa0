"""``specgauge run --runtime compose``: drives ``docker compose``, one start at a time.

The plan is made here, so that the variants of a round are interleaved; each start is one ``up`` of
its profile, and the load generator inside makes it.  What happened is read from the results.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault, ExitCode
from specgauge.plan import StartPlan, starts
from specgauge.record.layout import RunPaths
from specgauge.record.runs import completed, find_run
from specgauge.run.eager import or_eager
from specgauge.run.executor import Request, RunOutcome
from specgauge.serve.control import Control
from specgauge.stack.choose import Stack
from specgauge.stack.engine import Seen, at_work, strangers
from specgauge.stack.env import prepare

_STOP_WAIT_S = 90.0
_VIEWING = ("prometheus", "gpu-exporter")


@dataclass
class _State:
    """What the loop over one run's starts knows."""

    request: Request
    eager: bool = False
    """Graphs off for all variants: the load generator changes the experiment as we did."""
    run: RunPaths | None = None
    failed: list[str] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    graph_failure: str | None = None


class StackRun:
    """One command's starts in the stack of a checkout."""

    def __init__(
        self,
        stack: Stack,
        resolved: Resolved,
        project: Project,
        request: Request,
        words: tuple[str, str | None],
        console: Console,
    ) -> None:
        """``words``: experiment and model as typed; the load generator resolves them again."""
        self._stack = stack
        self._resolved = resolved
        self._project = project
        self._planned = starts(resolved.experiment, request.variants)
        self._words = words
        self._console = console
        self._state = _State(request)

    def measure(self, strict: bool) -> int:
        """Make the starts that the run lacks, then analyse in the analysis container.

        Returns the exit code of the analysis, or 4 or 130 for what was not measured.

        Raises:
            EnvironmentFault: containers of another checkout are in the way, or Compose failed.
            KeyboardInterrupt: before a first start had begun.
        """
        prepare(self._stack.root, rootless=self._stack.env.get("SPECGAUGE_UID") == "0")
        self._look_around()
        self._view()
        outcome = or_eager(self._make_all, self._resolved, self._state.request, self._console)
        code = self._analyse(outcome.paths, strict)
        for line in outcome.failed:
            self._console.print(f"not measured: {line}", style="red", markup=False, soft_wrap=True)
        if outcome.interrupted:
            return ExitCode.INTERRUPTED
        return ExitCode.INCOMPLETE if outcome.failed and code == ExitCode.MEASURED else code

    def _make_all(self, resolved: Resolved, request: Request) -> RunOutcome:
        """One run; ``resolved`` is what we were given, or the same with graphs off."""
        state = self._state = _State(request, eager=resolved is not self._resolved)
        interrupted = False
        try:
            for plan in self._pending():
                self._one(plan)
                if state.graph_failure is not None:
                    break
        except KeyboardInterrupt:
            if state.run is None:
                raise
            interrupted = True
        assert state.run is not None  # at least one start was pending
        return RunOutcome(state.run, state.failed, interrupted, state.graph_failure)

    def _look_around(self) -> None:
        seen = self._stack.engine.project(self._stack.project)
        if others := strangers(seen, self._stack.root):
            listed = "\n".join(f"  {one.words()}, made from {one.folder}" for one in others)
            raise EnvironmentFault(
                f"containers of another checkout carry this project's name, "
                f"{self._stack.project}; they are left alone:\n{listed}\n"
                "Give SPECGAUGE_PROJECT in .env a name of its own."
            )
        if busy := at_work(seen):
            listed = "\n".join(f"  {one.words()}" for one in busy)
            raise EnvironmentFault(
                f"an earlier run of this checkout is still going on:\n{listed}\n"
                "Wait for it, or stop it with 'make down'."
            )

    def _view(self) -> None:
        """Start what is for viewing, apart: an ``up`` that names it would wait for its end."""
        services = [name for name in _VIEWING if self._can_view(name)]
        if services:
            self._compose(["--profile", "observe", "up", "--detach", "--quiet-pull", *services])

    def _pending(self) -> Iterator[StartPlan]:
        """The starts still to make; what the run has already is known once it is open."""
        for plan in self._planned:
            if plan.variant in self._state.hopeless:
                continue
            if self._state.run is None or plan not in completed(self._state.run):
                yield plan

    def _one(self, plan: StartPlan) -> None:
        variant, state = plan.variant, self._state
        services = [f"vllm-{variant}", f"loadgen-{variant}"]
        started = time.time()
        try:
            code = self._compose(
                # --attach: the server's own lines go to server.log, not over the progress.
                ["--profile", variant, "up", "--no-log-prefix", "--attach", services[1], *services],
            )
        finally:
            ended = self._wait_ended(f"vllm-{variant}")
        loadgen = self._seen(f"loadgen-{variant}")
        told = Control(self._control / variant).result()
        if told is None or float(told["at"]) < started or loadgen is None:
            raise EnvironmentFault(
                f"docker compose up ended with {code} and the load generator did not run; "
                "what it said is above"
            )
        if told["run"] is None:
            if int(told["code"]) == ExitCode.INTERRUPTED:
                raise KeyboardInterrupt
            raise EnvironmentFault(str(told["error"]))
        state.run = find_run(self._project.results, str(told["run"]))
        if plan not in completed(state.run):
            how = f" ({ended.words()})" if ended is not None and ended.exit_code else ""
            state.failed.append(f"{variant}, round {plan.round + 1}{how}")
            state.hopeless.add(variant)
            state.graph_failure = told.get("graph_failure")
        if loadgen.exit_code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt

    def _analyse(self, run: RunPaths, strict: bool) -> int:
        folder = run.folder
        name = f"{folder.parent.name}/{folder.name}"
        words = ["--profile", "vanilla", "run", "--rm", "--no-deps", "-T"]
        words += ["-e", f"RUN={name}", *(["-e", "STRICT=1"] if strict else []), "analysis"]
        return self._compose(words)

    def _compose(self, words: list[str]) -> int:
        experiment, model = self._words
        run, request = self._state.run, self._state.request
        env = {
            **os.environ,
            "EXPERIMENT": experiment,
            "MODEL": model or "",
            "RUN": run.folder.name if run is not None else request.run_id or "",
            "NEW": "1" if request.fresh and run is None else "",
            "STARTS": "1",
            "EAGER": "1" if self._state.eager else "",
        }
        command = ["docker", "compose", *self._stack.files, *words]
        process = subprocess.Popen(command, cwd=self._stack.root, env=env)
        interrupted = False
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                # The terminal sent it to Compose too, which stops the containers in order.
                interrupted = True
                continue
            if interrupted:
                raise KeyboardInterrupt
            return code

    def _wait_ended(self, service: str) -> Seen | None:
        """The server's container once it has ended: it stops by itself after the load generator."""
        deadline = time.monotonic() + _STOP_WAIT_S
        while True:
            seen = self._seen(service)
            if seen is None or not seen.running or time.monotonic() > deadline:
                return seen
            time.sleep(0.2)

    def _seen(self, service: str) -> Seen | None:
        found = self._stack.engine.project(self._stack.project)
        return next((one for one in found if one.service == service), None)

    def _can_view(self, service: str) -> bool:
        """Viewing is not the record: left out where its image is not here."""
        if service == "gpu-exporter":
            return not self._stack.cpu
        image = self._stack.env.get("PROMETHEUS_IMAGE") or "prom/prometheus:v3.5.0"
        return self._stack.engine.has_image(image)

    @property
    def _control(self) -> Path:
        folder = self._stack.env.get("STACK_FOLDER")
        return Path(folder or self._stack.root / ".stack") / "control"
