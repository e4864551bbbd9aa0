"""DRIFT: the baseline at the end against the baseline at the beginning."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Cell, Reason
from specgauge.analyze.records import DRIFT_ROLE
from specgauge.analyze.stats import MIN_ROUNDS, geometric_mean

CODE = "DRIFT"

LIMIT = 0.03
"""Starts of the same server differ by about 1 %; three times that is the machine changing."""


def check(cells: Sequence[Cell], baseline: str, load: str) -> Reason | None:
    """Suspect, for every comparison under ``load``, when the baseline moved by more than 3 %.

    Closed loads by throughput, confirmed one-off freezes taken off: those have a verdict of their
    own and are no drift.  Open loads by TPOT: their throughput is the offered rate.  Without a last
    start its rounds speak, where they are too few for an interval that would hold the change.
    """
    begin, end = _ends(cells, baseline, load)
    between = "the first and the last start"
    if end is None:
        begin, end = _few_rounds(cells, baseline, load)
        between = "its first round and its last, too few for an interval that would hold it"
    if begin is None or end is None:
        return None
    change = end / begin - 1
    if abs(change) <= LIMIT:
        return None
    what = "ms a token" if is_open(cells, load) else "tok/s"
    return Reason(
        code=CODE,
        severity="suspect",
        detail=f"{load}: {baseline} went from {begin:.1f} to {end:.1f} {what} ({change:+.1%}) "
        f"between {between}.",
        remedy="Something changed while measuring (heat, other work on the machine): more rounds, "
        "interleaved, on a quiet machine.",
        evidence={
            ("first_tpot_ms" if is_open(cells, load) else "first_tok_s"): begin,
            ("last_tpot_ms" if is_open(cells, load) else "last_tok_s"): end,
            "change": change,
        },
    )


def unseen(
    cells: Sequence[Cell], baseline: str, loads: Sequence[str], planned: bool
) -> list[Reason]:
    """Unknown where a last start of the baseline was ``planned`` or made, and nothing compares.

    One reason for all loads of the same cause.  What the baseline's rounds say instead is told
    beside it: a change between them is in the intervals, where there are intervals.
    """
    found: dict[str, list[str]] = {}
    for load in loads:
        if (why := _why_unseen(cells, baseline, load, planned)) is not None:
            found.setdefault(why, []).append(load)
    return [
        Reason(
            code=CODE,
            severity="unknown",
            detail=f"{', '.join(named)}: {baseline} was to be measured again at the end, but "
            f"{why}: whether the machine changed while measuring was not seen."
            + _between_rounds(cells, baseline, named),
            remedy="Run the same command again: a start that is missing or had failed requests is "
            "made then. Else see what its cells say.",
        )
        for why, named in found.items()
    ]


def _why_unseen(cells: Sequence[Cell], baseline: str, load: str, planned: bool) -> str | None:
    mine = [c for c in cells if c.variant == baseline and c.load == load]
    last = [c for c in mine if c.role == DRIFT_ROLE]
    begin, end = _ends(cells, baseline, load)
    looked_at = None not in (begin, end) or None not in _few_rounds(cells, baseline, load)
    if looked_at or not (planned or last):
        return None
    if end is not None:
        return "no cell of its first start counts"
    if any(c.verdict == "INVALID" for c in last):
        return "that cell is INVALID"
    return "that start did not end well" if last else "that start never ran to its end"


def _between_rounds(cells: Sequence[Cell], baseline: str, loads: Sequence[str]) -> str:
    """A sentence: by how much the baseline's last counted round differs from its first."""
    changes = []
    for load in loads:
        by_round = _by_round(cells, baseline, load)
        if len(by_round) > 1 and by_round[0] and by_round[-1]:
            changes.append(f"{load} {by_round[-1] / by_round[0] - 1:+.1%}")
    return f" From its first counted round to its last: {', '.join(changes)}." if changes else ""


def _few_rounds(
    cells: Sequence[Cell], baseline: str, load: str
) -> tuple[float | None, float | None]:
    """The baseline's first round and its last, of two and more that give no interval."""
    by_round = _by_round(cells, baseline, load)
    return (by_round[0], by_round[-1]) if 1 < len(by_round) < MIN_ROUNDS else (None, None)


def _by_round(cells: Sequence[Cell], baseline: str, load: str) -> list[float | None]:
    """The baseline's figure in each counted round."""
    mine = [c for c in cells if c.variant == baseline and c.load == load and not c.excluded]
    return [pace([c for c in mine if c.round == k]) for k in sorted({c.round for c in mine})]


def _ends(cells: Sequence[Cell], baseline: str, load: str) -> tuple[float | None, float | None]:
    """The baseline's first round and its last start: tokens/s, of an open load TPOT in ms."""
    mine = [c for c in cells if c.variant == baseline and c.load == load and c.verdict != "INVALID"]
    last = [c for c in mine if c.role == DRIFT_ROLE and c.excluded_because == DRIFT_ROLE]
    first_round = min((c.round for c in mine if not c.excluded), default=None)
    first = [c for c in mine if not c.excluded and c.round == first_round]
    return pace(first), pace(last)


def pace(cells: Sequence[Cell]) -> float | None:
    """Geometric mean over ``cells``: tokens/s, freezes taken off; of open loads mean TPOT in ms."""
    values = [c.observed.tpot_ms.mean if c.rate is not None else _throughput(c) for c in cells]
    return geometric_mean([v for v in values if v])


def _throughput(cell: Cell) -> float | None:
    if cell.derived is not None and cell.derived.verdict == "VALID":
        return cell.derived.output_tok_s
    return cell.observed.output_tok_s


def is_open(cells: Sequence[Cell], load: str) -> bool:
    """Whether ``load``'s requests arrive at a rate, whatever the server does."""
    return any(c.rate is not None for c in cells if c.load == load)
