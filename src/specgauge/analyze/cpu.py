"""The kernel's accounts of a server's processes around a cell: who ran, who waited.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze.counters import Counters, Window
from specgauge.analyze.throughput import Span
from specgauge.record.schema import CPU_RUN, CPU_STOLEN, CPU_THROTTLED, CPU_WAIT

NEAR_S = 1.5
"""A sample farther than this from first send or last chunk says nothing of the time between: half
as much again as the widest grid that runs were recorded on."""

_CUT = {"VLLM::EngineCor": "VLLM::EngineCore"}
"""The kernel keeps fifteen letters of a name."""
_API = "VLLM::APIServer"
"""One of several; a lone API server is the program that was started, under its own name."""
_ENGINE = ("VLLM::EngineCor", "VLLM::Worker")


@dataclass(frozen=True)
class Account:
    """What one process's main thread did over a window."""

    name: str
    seconds: float

    @property
    def is_engine(self) -> bool:
        """It runs the engine's loop, or a part of the model (a worker)."""
        return self.name.startswith(_ENGINE)

    @property
    def is_api_server(self) -> bool:
        """It reads requests and writes answers; told only beside an engine that names itself."""
        return self.name.startswith(_API) or not self.name.startswith("VLLM::")


def around(counters: Counters, span: Span) -> Window | None:
    """The last sample at or before the first send, the first one at or after the last chunk.

    None without samples, or where one of the two lies farther from ``span`` than ``NEAR_S``.
    """
    looks = counters.changed_at(CPU_RUN, CPU_WAIT, CPU_THROTTLED, CPU_STOLEN)
    before, after = looks[looks <= span.t0], looks[looks >= span.t1]
    if not before.size or not after.size:
        return None
    begin, end = float(before[-1]), float(after[0])
    near = span.t0 - begin <= NEAR_S and end - span.t1 <= NEAR_S
    return Window(begin, end, closed=True) if near and end > begin else None


def by_process(counters: Counters, account: str, window: Window) -> list[Account]:
    """Growth of ``account`` (``CPU_RUN``, ``CPU_WAIT``) over ``window``, process by process."""
    found = []
    for pid, seconds in counters.delta_by(account, "pid", window).items():
        name = counters.label_of(account, "process", pid=pid) or f"process {pid}"
        found.append(Account(_CUT.get(name, name), seconds))
    return found
