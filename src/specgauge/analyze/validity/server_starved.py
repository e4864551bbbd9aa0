"""SERVER_STARVED: the server's processes were ready to run and did not get a CPU."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.record.schema import CPU_THROTTLED, CPU_WAIT

CODE = "SERVER_STARVED"

LIMIT = 0.15
"""Share of the cell from which a wait is suspect.  The engine's loop is the main thread: what it
waits, every step waits.  Client, scraper and API take some of a small machine's CPUs from it, in
all variants alike: 4 to 7 % in the process way, 7 to 10 % in containers on two quiet cores.  Half
as much again is somebody else."""
NOTED = 0.03
"""And from which it is told at all: three times what starts differ by."""

BUSY = 4
"""CPUs that a server and its client keep busy: the engine's loop, the API, the client, a scraper.
The hypervisor takes from those that run: spread over all CPUs of a large machine it would vanish.
On 32 of them 1.4 s in a cell of 3 s was in an H200 run whose baseline had slowed by 11 %."""

_CUT = {"VLLM::EngineCor": "VLLM::EngineCore"}
"""The kernel keeps fifteen letters of a name."""


def check(cell: CellContext) -> Reason | None:
    """Suspect from 15 % of the cell, info from 3 %: a process's main thread that waited, its cgroup
    that was held back, or the hypervisor.

    ngram drafts on the CPU, so a busy host slows it and not the baseline.
    """
    if cell.window is None or cell.span is None or not cell.cell.document:
        return None
    seconds = cell.window.t1 - cell.window.t0
    counters = cell.start.counters
    seen: list[str] = []
    shares: list[float] = []
    evidence: dict[str, float | int | str | None] = {}
    waits = counters.delta_by(CPU_WAIT, "pid", cell.window)
    if waits:
        pid, longest = max(waits.items(), key=lambda item: item[1])
        evidence["wait_s"] = longest
        shares.append(longest / seconds)
        if shares[-1] > NOTED:
            name = counters.label_of(CPU_WAIT, "process", pid=pid) or f"process {pid}"
            name = _CUT.get(name, name)
            seen.append(f"{name} waited {longest:.2f} s for a CPU ({longest / seconds:.0%})")
    throttled = counters.delta(CPU_THROTTLED, cell.window)
    if throttled is not None and throttled > NOTED * seconds:
        shares.append(throttled / seconds)
        evidence["throttled_s"] = throttled
        seen.append(f"its cgroup was held back for {throttled:.2f} s ({throttled / seconds:.0%})")
    load = cell.cell.document.host_load
    if "steal_s_before" in load and "steal_s_after" in load:
        stolen = load["steal_s_after"] - load["steal_s_before"]
        machine = cell.setup.facts.get("machine")
        cores = min(BUSY, machine.get("cores") or 1 if isinstance(machine, dict) else 1)
        if stolen > NOTED * seconds * cores:
            shares.append(stolen / seconds / cores)
            evidence["steal_s"] = stolen
            seen.append(f"the hypervisor took {stolen:.2f} s of CPU time away")
    if not seen:
        return None
    evidence["share"] = max(shares)
    return Reason(
        code=CODE,
        severity="suspect" if max(shares) > LIMIT else "info",
        detail="; ".join(seen) + ".",
        remedy="A quieter machine or more cores: what a server waits for a CPU is in its figures, "
        "and no two variants wait alike (ngram drafts on the CPU).",
        evidence=evidence,
    )
