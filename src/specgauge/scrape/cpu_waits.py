"""How long the server's processes waited for a CPU: samples of the kernel's own accounts.

``/proc/<pid>/schedstat`` of each process's main thread (the one that runs vLLM's engine loop, or
its API's event loop), and its cgroup's throttled time.  One sample a second costs a few
milliseconds of another core than the server's.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

from specgauge.record.schema import CPU_RUN, CPU_THROTTLED, CPU_WAIT
from specgauge.serve.tree import descendants

EVERY_S = 1.0
FAMILY_EVERY = 10
"""Samples between two looks at which processes there are: that reads all of /proc."""

Row = tuple[float, str, str, float]
"""A row of ``metrics.parquet``."""


class CpuWaits:
    """Samples the tree below ``root`` until told to stop."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._labels: dict[int, str] = {}
        self._first: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self.rows: list[Row] = []
        """A row when a value differs from its last, as in ``metrics.parquet``."""

    def run(self, stop: threading.Event) -> None:
        """Sample now and then every second until ``stop`` is set; once more at the end."""
        number = 0
        while True:
            if number % FAMILY_EVERY == 0:
                for pid in (self._root, *descendants(self._root)):
                    self._labels.setdefault(pid, _labels(pid))
            self._sample()
            number += 1
            if stop.wait(EVERY_S):
                self._sample()
                return

    def _sample(self) -> None:
        now = time.monotonic()
        for pid, labels in self._labels.items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                run, wait = Path(f"/proc/{pid}/schedstat").read_text().split()[:2]
                self._note(now, CPU_RUN, labels, int(run) / 1e9)
                self._note(now, CPU_WAIT, labels, int(wait) / 1e9)
        throttled = _throttled(self._root)
        if throttled is not None:
            self._note(now, CPU_THROTTLED, "{}", throttled)

    def _note(self, t: float, name: str, labels: str, value: float) -> None:
        """Count from the first sample: a process that is found late brings no past with it."""
        since = value - self._first.setdefault((name, labels), value)
        if self._last.get((name, labels)) != since:
            self._last[name, labels] = since
            self.rows.append((t, name, labels, since))


def _labels(pid: int) -> str:
    name = "?"
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    return json.dumps({"pid": str(pid), "process": name}, separators=(",", ":"))


def _throttled(pid: int) -> float | None:
    """Seconds for which the cgroup (version 2) of ``pid`` was held back; None if it is not told."""
    with contextlib.suppress(OSError, ValueError, KeyError, StopIteration):
        line = next(
            text
            for text in Path(f"/proc/{pid}/cgroup").read_text().splitlines()
            if text.startswith("0::")
        )
        stat = Path("/sys/fs/cgroup") / line[3:].lstrip("/") / "cpu.stat"
        facts = dict(text.split() for text in stat.read_text().splitlines())
        return int(facts["throttled_usec"]) / 1e6
    return None
