"""What only a look across a run's cells shows: repeats that found a warm cache, unlike starts."""

from __future__ import annotations

from specgauge.analyze import validity
from specgauge.analyze.document import Cell, Reason
from specgauge.analyze.records import PARTIAL
from specgauge.analyze.validity import cache_warm, throttled, unsteady


def noted(cells: list[Cell]) -> list[Cell]:
    """``cells`` of a whole run, with what was seen between them."""
    return between_starts(warm_repeats(cells))


def warm_repeats(cells: list[Cell]) -> list[Cell]:
    """Repeats of a load on one start that found their prompts cached carry a note."""
    first = {(c.variant, c.start, c.load): c for c in reversed(cells)}
    found = []
    for cell in cells:
        opening = first[cell.variant, cell.start, cell.load]
        seen = cache_warm.between_repeats(opening, cell) if opening is not cell else None
        extra = [seen.model_copy(update={"scope": "cell"})] if seen else []
        found.append(cell.model_copy(update={"reasons": [*cell.reasons, *extra]}))
    return found


def between_starts(cells: list[Cell]) -> list[Cell]:
    """Cells of a variant whose starts ran at other clocks, or at another pace, carry that."""
    found = list(cells)
    for differing in (throttled.between_starts(cells, PARTIAL), unsteady.between_starts(cells)):
        for at, reason in differing.items():
            found[at] = _with(found[at], reason)
    return found


def _with(cell: Cell, reason: Reason) -> Cell:
    reasons = [*cell.reasons, reason]
    update: dict[str, object] = {"reasons": reasons, "verdict": validity.verdict(reasons)}
    if cell.derived is not None and reason.severity == "suspect":
        # taking freezes off takes neither other clocks off nor another pace
        worst = validity.worse(cell.derived.verdict, "SUSPECT")
        update["derived"] = cell.derived.model_copy(update={"verdict": worst})
    return cell.model_copy(update=update)
