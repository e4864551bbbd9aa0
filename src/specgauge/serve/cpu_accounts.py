"""How long a server's processes waited for a CPU: the kernel's own accounts.  Stdlib only.

``/proc/<pid>/schedstat`` of each process's main thread (the one that runs vLLM's engine loop, or
its API's event loop), its cgroup's throttled time, and what the hypervisor took of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from specgauge.serve.tree import descendants

EVERY_S = 0.2
"""Between two looks.  Cells last a second or two: the samples around one must lie close to it.  A
look at nine processes costs 0.25 ms of CPU time; all of it, at this rate, 0.3 % of one CPU."""
FAMILY_EVERY = 50
"""Looks between two searches for which processes there are: that reads all of /proc (4 ms)."""

RUN, WAIT, THROTTLED, STOLEN = "run", "wait", "throttled", "stolen"
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
"""The unit of /proc/stat, a second."""

Sample = tuple[float, str, str, float]
"""Monotonic seconds, which account, labels (JSON), seconds since the account's first sample."""


class CpuAccounts:
    """The accounts of the processes below ``root``; of ``root`` itself too if it ``counts``."""

    def __init__(self, root: int, counts: bool = True) -> None:
        self._root = root
        self._counts = counts
        self._looks = 0
        self._labels: dict[int, str] = {}
        self._first: dict[tuple[str, str], float] = {}
        self._last: dict[tuple[str, str], float] = {}

    def look(self) -> list[Sample]:
        """The values now; those that are as at the last look are left out."""
        if self._looks % FAMILY_EVERY == 0 or not self._labels:
            own = [self._root] if self._counts else []
            for pid in (*own, *descendants(self._root)):
                self._labels.setdefault(pid, _labels(pid))
        self._looks += 1
        now = time.monotonic()
        found: list[tuple[str, str, float]] = []
        for pid, labels in self._labels.items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                run, wait = Path(f"/proc/{pid}/schedstat").read_text().split()[:2]
                found += [(RUN, labels, int(run) / 1e9), (WAIT, labels, int(wait) / 1e9)]
        for account, seconds in ((THROTTLED, _throttled(self._root)), (STOLEN, stolen())):
            if seconds is not None:
                found.append((account, "{}", seconds))
        return [
            (now, account, labels, since)
            for account, labels, value in found
            if (since := self._changed(account, labels, value)) is not None
        ]

    def _changed(self, account: str, labels: str, value: float) -> float | None:
        """Counted from the first sample: a process that is found late brings no past with it."""
        key = (account, labels)
        since = value - self._first.setdefault(key, value)
        if self._last.get(key) == since:
            return None
        self._last[key] = since
        return since


class AccountsFile:
    """Writes the accounts of this process's children into a file, a JSON list a line."""

    def __init__(self, path: Path, accounts: CpuAccounts) -> None:
        self._path = path
        self._accounts = accounts
        self._next = 0.0

    def look(self) -> None:
        """Look and write, if ``EVERY_S`` has passed since; may be called as often as one likes.

        What cannot be written is missing later, and nothing else: the server goes on.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        text = "".join(json.dumps(sample) + "\n" for sample in self._accounts.look())
        if text:
            with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
                file.write(text)


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


def stolen(stat: Path = Path("/proc/stat")) -> float | None:
    """Seconds, summed over the machine's CPUs, for which a hypervisor ran somebody else on them."""
    with contextlib.suppress(OSError, ValueError, IndexError), stat.open("rb") as file:
        return int(file.readline().split()[8]) / TICKS
    return None
