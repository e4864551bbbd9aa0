"""Run one cell's load: start Locust, follow it, end it, write what it recorded."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from specgauge.interrupts import uninterrupted
from specgauge.load.job import Parts, write_plan
from specgauge.load.message import address
from specgauge.load.plan import (
    CellPlan,
    LoadInterrupted,
    LoadProgress,
    LoadResult,
    PlannedRequest,
)
from specgauge.load.processes import TERM_GRACE_S, LocustProcess, Output, commands
from specgauge.record.atomic import write_parquet, write_text
from specgauge.record.documents import ClientSelf
from specgauge.record.layout import CellPaths

__all__ = [
    "CellPlan",
    "LoadInterrupted",
    "LoadProgress",
    "LoadResult",
    "PlannedRequest",
    "run_load",
]

POLL_S = 0.1
START_LIMIT_S = 120.0
"""Locust's start, every connection and the barrier take seconds; after this they never will."""


def run_load(
    plan: CellPlan,
    paths: CellPaths,
    *,
    on_progress: Callable[[LoadProgress], None],
    should_stop: Callable[[], str | None],
) -> LoadResult:
    """Send every planned request once; blocks until all have ended or it is told to stop.

    Writes ``paths.requests``, ``paths.chunks`` and ``paths.locust_log``, also when stopped: what
    was in flight then has state ``cut``, what had not been sent has no row.

    Args:
        plan: what to send, and where.
        paths: the cell's files.
        on_progress: called about twice a second, from the calling thread.
        should_stop: asked ten times a second; a text ends the load and becomes its ``error``.

    Raises:
        UsageError: ``plan.url`` is not an ``http://`` URL.
        EnvironmentFault: the records cannot be written.
        ValueError: a plan without requests.
        LoadInterrupted: a KeyboardInterrupt, handed on after the records were written.
    """
    if not plan.requests:
        raise ValueError("a plan without requests")
    address(plan.url)
    with tempfile.TemporaryDirectory(prefix="specgauge-load-") as folder:
        return _Cell(plan, Path(folder)).run(paths, on_progress, should_stop)


class _Cell:
    """The processes of one load and what they have said so far."""

    def __init__(self, plan: CellPlan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._progress: dict[str, LoadProgress] = {}
        self._output = Output(self._take_progress)
        self._processes: list[LocustProcess] = []
        self._begin = time.monotonic()

    def run(
        self,
        paths: CellPaths,
        on_progress: Callable[[LoadProgress], None],
        should_stop: Callable[[], str | None],
    ) -> LoadResult:
        """See ``run_load``."""
        reason: str | None = None
        interrupted = False
        try:
            plan_file = write_plan(self._folder, self._plan)
            for name, argv, worker in commands(self._plan):
                self._processes.append(
                    LocustProcess(name, argv, worker, plan_file, self._output.take)
                )
            reason = self._follow(on_progress, should_stop)
        except KeyboardInterrupt:
            reason, interrupted = "interrupted", True
        except BaseException:
            with uninterrupted():
                self._end()
            raise
        try:
            with uninterrupted():  # impatience must not cost what was measured
                result = self._result(reason, self._end())
                self._write(paths)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            raise LoadInterrupted(result)
        on_progress(self._total())
        return result

    def _follow(
        self,
        on_progress: Callable[[LoadProgress], None],
        should_stop: Callable[[], str | None],
    ) -> str | None:
        """Until the leading process ends (None) or there is a reason to stop it."""
        shown = LoadProgress(0, 0, 0, 0)
        while self._processes[0].poll() is None:
            if reason := should_stop():
                return reason
            if any(worker.poll() not in (None, 0) for worker in self._processes[1:]):
                return "a Locust worker ended too early"
            now = self._total()
            if now != shown:
                on_progress(now)
                shown = now
            if not now.sent and time.monotonic() - self._begin > START_LIMIT_S:
                return f"the load generator sent nothing within {START_LIMIT_S:g} s"
            time.sleep(POLL_S)
        return None

    def _end(self) -> list[int]:
        """Stop whatever still runs; exit codes in the order of the processes."""
        deadline = time.monotonic() + TERM_GRACE_S
        if self._recorded() < self._plan.processes:
            for process in self._processes:
                process.terminate()
        return [process.finish(deadline) for process in self._processes]

    def _take_progress(self, name: str, line: str) -> None:
        self._progress[name] = LoadProgress(**json.loads(line))

    def _total(self) -> LoadProgress:
        parts = list(self._progress.values())
        return LoadProgress(
            sent=sum(part.sent for part in parts),
            done=sum(part.done for part in parts),
            failed=sum(part.failed for part in parts),
            tokens=sum(part.tokens for part in parts),
        )

    def _parts(self) -> list[Parts]:
        return [Parts(self._folder, worker) for worker in range(self._plan.processes)]

    def _recorded(self) -> int:
        """How many processes have written all they had."""
        return sum(part.client.is_file() for part in self._parts())

    def _result(self, reason: str | None, codes: list[int]) -> LoadResult:
        ends = [document for part in self._parts() if (document := _read_json(part.client))]
        code = codes[0] if codes else None
        error = reason or next((end["fault"] for end in ends if end["fault"]), None)
        if error is None and (code != 0 or len(ends) < self._plan.processes):
            error = f"Locust ended with exit code {code}: " + " | ".join(self._output.last(5))
        t_go = [end["t_go"] for end in ends if end["t_go"] is not None]
        return LoadResult(
            t_begin=self._begin,
            t_go=min(t_go, default=None),
            t_end=max((end["t_end"] for end in ends), default=time.monotonic()),
            exit_code=code,
            locust_version=version("locust"),
            clients=[ClientSelf.model_validate(end["client"]) for end in ends],
            error=error,
            stopped=reason is not None,
        )

    def _write(self, paths: CellPaths) -> None:
        from specgauge.load.tables import merge

        requests, chunks = merge(self._parts(), closed=self._plan.concurrency is not None)
        write_parquet(paths.requests, requests)
        write_parquet(paths.chunks, chunks)
        write_text(paths.locust_log, self._output.text())


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    value: dict[str, Any] = json.loads(path.read_text())
    return value
