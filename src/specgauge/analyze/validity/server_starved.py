"""SERVER_STARVED: the server's processes were ready to run and did not get a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze import cpu
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.record.schema import CPU_RUN, CPU_STOLEN, CPU_THROTTLED, CPU_WAIT

CODE = "SERVER_STARVED"
STOLEN = "steal_s"

LIMIT = 0.15
"""Share of the time from which a wait is suspect.  The engine's loop is the main thread: what it
waits, every step waits.  Client, scraper and API take some of a small machine's CPUs from it, in
all variants alike: 4 to 7 % in the process way, 7 to 10 % in containers on two quiet cores (of the
load alone up to 9 % where it was 6 % of the cell).  Half as much again is somebody else."""
NOTED = 0.03
"""And from which it is told at all: three times what starts differ by."""

BUSY = 4
"""CPUs that a server and its client keep busy: the engine's loop, the API, the client, a scraper.
The hypervisor takes from those that run: spread over all CPUs of a large machine it would vanish.
On 32 of them 1.4 s in a cell of 3 s was in an H200 run whose baseline had slowed by 11 %."""


REMEDY = (
    "A quieter machine or more cores: what a server waits for a CPU is in its figures, and no two "
    "variants wait alike (ngram drafts on the CPU)."
)


@dataclass(frozen=True)
class Lost:
    """CPU time that the server did not get, as one account has it."""

    key: str
    """Of the evidence."""
    seconds: float
    share: float
    words: str
    bracketed: bool = True
    """Over the bracket of samples."""


def check(cell: CellContext) -> Reason | None:
    """Suspect from 15 % of the time, info from 3 %: a process's main thread that waited, its cgroup
    that was held back, or the hypervisor.

    Shares are of the time between the samples around first send and last chunk, which is longer
    than the load: what was lost in the load alone may be more.  Unknown where no sample lies near
    it.  ngram drafts on the CPU, so a busy host slows it and not the baseline.
    """
    if cell.span is None or not cell.cell.document:
        return None
    window = cell.cpu_window
    lost = [x for x in (*_by_accounts(cell), _stolen(cell)) if x is not None]
    seen = [x for x in lost if x.share > NOTED]
    unwatched = window is None and cell.start.counters.has(CPU_RUN)
    if unwatched and not any(x.share > LIMIT for x in seen):
        return Reason(
            code=CODE,
            severity="unknown",
            detail="No sample of the server's CPU accounts lies near this cell: whether it waited "
            "for a CPU was not seen.",
            remedy="See that the scraper runs until the load has ended, then run again.",
        )
    if not seen:
        return None
    share = max(x.share for x in seen)
    around = ""
    if window is not None and any(x.bracketed for x in seen):
        around = (
            f" Seen over the {window.t1 - window.t0:.1f} s between the samples around "
            f"{cell.span.seconds:.1f} s of load."
        )
    of_steal = next((x.share for x in seen if x.key == STOLEN), None)
    return Reason(
        code=CODE,
        severity="suspect" if share > LIMIT else "info",
        detail="; ".join(x.words for x in seen) + "." + around,
        remedy=REMEDY,
        evidence={
            **{x.key: x.seconds for x in seen},
            "share": share,
            **({} if of_steal is None else {"steal_share": of_steal}),
        },
    )


def _by_accounts(cell: CellContext) -> list[Lost]:
    """The longest wait of a process, and what the cgroup was held back."""
    window, counters = cell.cpu_window, cell.start.counters
    if window is None:
        return []
    whole = window.t1 - window.t0
    found = []
    waits = cpu.by_process(counters, CPU_WAIT, window)
    if waits:
        worst = max(waits, key=lambda account: account.seconds)
        share = worst.seconds / whole
        words = f"{worst.name} waited {worst.seconds:.2f} s for a CPU ({share:.0%})"
        found.append(Lost("wait_s", worst.seconds, share, words))
    throttled = counters.delta(CPU_THROTTLED, window)
    if throttled is not None:
        share = throttled / whole
        words = f"its cgroup was held back for {throttled:.2f} s ({share:.0%})"
        found.append(Lost("throttled_s", throttled, share, words))
    return found


def _stolen(cell: CellContext) -> Lost | None:
    """What the hypervisor took, of ``BUSY`` CPUs.

    Runs without an account of it read it at the cell's begin and end, seconds before the first send
    and after the last chunk: all of it may have been taken from the load, and no more.
    """
    window, span, document = cell.cpu_window, cell.span, cell.cell.document
    machine = cell.setup.facts.get("machine")
    known = machine.get("cores") if isinstance(machine, dict) else None
    cores = min(BUSY, known) if isinstance(known, int) and known > 0 else BUSY
    if window is not None and cell.start.counters.has(CPU_STOLEN):
        seconds = cell.start.counters.delta(CPU_STOLEN, window) or 0.0
        share = min(seconds / (window.t1 - window.t0) / cores, 1.0)
        words = (
            f"the hypervisor took {seconds:.2f} s of CPU time away ({share:.0%} of {cores} CPUs, "
            "were all of it theirs)"
        )
        return Lost(STOLEN, seconds, share, words)
    load = document.host_load if document else {}
    if span is None or not span.seconds or not {"steal_s_before", "steal_s_after"} <= load.keys():
        return None
    seconds = load["steal_s_after"] - load["steal_s_before"]
    share = min(seconds / span.seconds / cores, 1.0)
    words = (
        f"the hypervisor took {seconds:.2f} s of CPU time away between the cell's begin and end "
        f"(at most {share:.0%} of {cores} CPUs under load)"
    )
    return Lost(STOLEN, seconds, share, words, bracketed=False)
