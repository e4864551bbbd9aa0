"""The process's clocks: offset between epoch and monotonic time, and time spent on a CPU."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_SAMPLES = 25


def epoch_offset_ns() -> int:
    """Epoch minus monotonic time, in nanoseconds.

    Each sample reads the epoch between two readings of the monotonic clock; the pair that lies
    closest together bounds the error to half its distance (well under a microsecond unless the
    process is interrupted in every one of the samples).
    """
    best_width, best_offset = None, 0
    for _ in range(_SAMPLES):
        before = time.monotonic_ns()
        epoch = time.time_ns()
        after = time.monotonic_ns()
        width = after - before
        if best_width is None or width < best_width:
            best_width, best_offset = width, epoch - (before + after) // 2
    return best_offset


@dataclass(frozen=True)
class CpuTimes:
    """Cumulative seconds of this process: used (user + system), on a CPU, waiting for one."""

    cpu_s: float
    run_s: float | None
    wait_s: float | None

    def since(self, earlier: CpuTimes) -> CpuTimes:
        """What passed between ``earlier`` and this reading."""
        return CpuTimes(
            self.cpu_s - earlier.cpu_s,
            _minus(self.run_s, earlier.run_s),
            _minus(self.wait_s, earlier.wait_s),
        )


def _minus(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def cpu_times() -> CpuTimes:
    """Read them now; run and wait come from ``/proc/self/schedstat`` (main thread, Linux only)."""
    used = os.times()
    run, wait = None, None
    try:
        fields = Path("/proc/self/schedstat").read_text().split()
        run, wait = int(fields[0]) / 1e9, int(fields[1]) / 1e9
    except (OSError, IndexError, ValueError):  # not Linux, or a kernel without schedstat
        pass
    return CpuTimes(used.user + used.system, run, wait)
