"""Energy of variants against the baseline: per round, then over rounds, as speed-ups are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from specgauge.analyze import stats
from specgauge.analyze.document import Cell, Comparison
from specgauge.analyze.document_gpu import EnergyRatio
from specgauge.analyze.pairing import apart, figure_rounds

Metric = Literal["joules_per_token", "joules_per_token_above_rest"]

_FIGURES: dict[Metric, Callable[[Cell], float | None]] = {
    "joules_per_token": lambda cell: cell.observed.joules_per_token,
    "joules_per_token_above_rest": lambda cell: cell.observed.joules_per_token_above_rest,
}


def compare(
    cells: Sequence[Cell], baseline: str, comparisons: Sequence[Comparison]
) -> list[EnergyRatio]:
    """Every variant under every load against ``baseline``: energy per output token.

    Start k against the baseline's start k, repeat by repeat (``pairing``); the geometric mean over
    rounds.  A round counts that has the figure on both sides; without one there is no ratio.
    ``comparisons``: the speed-ups, of the same cells and what was seen of them: their verdict is
    the ratio's.
    """
    found = []
    for variant, load in dict.fromkeys((c.variant, c.load) for c in cells):
        speedup = _speedup(comparisons, variant, load)
        if speedup is None:
            continue
        mine = [c for c in cells if (c.variant, c.load) == (variant, load)]
        base = [c for c in cells if (c.variant, c.load) == (baseline, load)]
        for metric, figure in _FIGURES.items():
            rounds = apart(figure_rounds(mine, base, figure))
            ratio = stats.ratio([r.log_ratio for r in rounds])
            if ratio is not None:
                found.append(
                    EnergyRatio(
                        variant=variant,
                        against=baseline,
                        load=load,
                        metric=metric,
                        ratio=ratio.value,
                        rounds=ratio.rounds,
                        per_round=[math.exp(r.log_ratio) for r in rounds],
                        verdict=speedup.verdict,
                        reasons=speedup.reasons,
                    )
                )
    return found


def _speedup(comparisons: Sequence[Comparison], variant: str, load: str) -> Comparison | None:
    """The observed one that leads its row: throughput of a closed load, TPOT of an open one."""
    mine = [c for c in comparisons if (c.variant, c.load, c.basis) == (variant, load, "observed")]
    return next((c for c in mine if c.headline), None)
