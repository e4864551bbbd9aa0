"""Fixtures: a stamped source server in a process of its own, and plans to send to it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from specgauge.load.plan import CellPlan, PlannedRequest

settings.register_profile("any machine", deadline=None)  # a busy one is no failure
settings.load_profile("any machine")


class RunningSource:
    """The server's process; ``end`` gives its log."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("stamped_source.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def end(self) -> dict[str, Any]:
        out, _ = self._process.communicate()
        return json.loads(out) if out else {}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def source() -> Iterator[RunningSource]:
    running = RunningSource()
    yield running
    running.kill()


@pytest.fixture
def make_plan() -> Callable[..., CellPlan]:
    def make(
        url: str,
        n: int,
        *,
        concurrency: int | None = 2,
        tokens: int = 5,
        scheduled: list[float] | None = None,
        workers: int = 0,
        timeout_s: float = 10.0,
        **extra: Any,
    ) -> CellPlan:
        times = scheduled or [None] * n
        return CellPlan(
            url=url,
            model="m",
            concurrency=concurrency,
            rate=None if concurrency else 1.0,
            workers=workers,
            requests=tuple(
                PlannedRequest(i, f"p{i}", "kind", tuple(range(10 + i)), tokens, i, times[i])
                for i in range(n)
            ),
            ignore_eos=True,
            temperature=0.0,
            extra_body=extra,
            request_timeout_s=timeout_s,
        )

    return make
