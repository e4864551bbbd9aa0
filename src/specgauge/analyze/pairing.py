"""Rounds of a comparison: start against start, repeat by repeat, prompt by prompt."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from specgauge.analyze.document import Cell

CellKey = tuple[str, int, str, int]
"""variant, start, load, repeat"""

SAME = 1e-9
"""Relative difference up to which two measured times are one time, copied: a nanosecond in a
second.  Starts of one server differ by about 1 %, and the kernel's own stamps by microseconds."""


@dataclass(frozen=True)
class RoundRatio:
    """One round's logarithmic ratio and the cells behind it."""

    log_ratio: float
    cells: tuple[Cell, ...]


def key(cell: Cell) -> CellKey:
    """What names a cell."""
    return cell.variant, cell.start, cell.load, cell.repeat


def paired(mine: Sequence[Cell], base: Sequence[Cell]) -> list[tuple[list[Cell], list[Cell]]]:
    """Per round, the repeats usable on both sides."""
    by_round: dict[int, tuple[dict[int, Cell], dict[int, Cell]]] = defaultdict(lambda: ({}, {}))
    for side, group in enumerate((mine, base)):
        for cell in group:
            if not cell.excluded:
                by_round[cell.round][side][cell.repeat] = cell
    found = []
    for _, (ours, theirs) in sorted(by_round.items()):
        common = sorted(ours.keys() & theirs.keys())
        if common:
            found.append(([ours[r] for r in common], [theirs[r] for r in common]))
    return found


def figure_rounds(
    mine: Sequence[Cell], base: Sequence[Cell], figure: Callable[[Cell], float | None]
) -> list[RoundRatio]:
    """A figure, variant / baseline; a repeat without one on either side counts on neither."""
    rounds = []
    for ours, theirs in paired(mine, base):
        logs = [
            math.log(a / b)
            for x, y in zip(ours, theirs, strict=True)
            if (a := figure(x)) and (b := figure(y))
        ]
        if logs:
            rounds.append(RoundRatio(math.fsum(logs) / len(logs), (*ours, *theirs)))
    return rounds


def throughput_rounds(mine: Sequence[Cell], base: Sequence[Cell]) -> list[RoundRatio]:
    """``figure_rounds`` of the output throughput."""
    return figure_rounds(mine, base, lambda cell: cell.observed.output_tok_s)


def apart(rounds: Sequence[RoundRatio]) -> list[RoundRatio]:
    """The rounds that are measurements of their own: copies of earlier ones are left out.

    A round is a copy if its ratio is an earlier one's, or any of its cells has the times of that
    round's cell of the same variant and repeat.
    """
    kept: list[RoundRatio] = []
    for ratio in rounds:
        if not any(_is_copy(ratio, earlier) for earlier in kept):
            kept.append(ratio)
    return kept


def _is_copy(ratio: RoundRatio, earlier: RoundRatio) -> bool:
    if abs(ratio.log_ratio - earlier.log_ratio) <= SAME:
        return True
    theirs = {(c.variant, c.repeat): c for c in earlier.cells}
    return any(
        _same_times(c, other)
        for c in ratio.cells
        if (other := theirs.get((c.variant, c.repeat))) is not None
    )


def _same_times(one: Cell, other: Cell) -> bool:
    pairs = [
        (a, b)
        for a, b in zip(_times(one), _times(other), strict=True)
        if a is not None and b is not None
    ]
    return bool(pairs) and all(math.isclose(a, b, rel_tol=SAME) for a, b in pairs)


def _times(cell: Cell) -> tuple[float | None, ...]:
    seen = cell.observed
    return seen.duration_s, seen.output_tok_s, seen.ttft_ms.mean, seen.tpot_ms.mean


def tpot_rounds(
    mine: Sequence[Cell], base: Sequence[Cell], latencies: Mapping[CellKey, pd.DataFrame]
) -> list[RoundRatio]:
    """TPOT of the baseline / the variant, prompt by prompt."""
    rounds = []
    for ours, theirs in paired(mine, base):
        mean = tpot_log_ratio(
            [latencies[key(c)] for c in theirs], [latencies[key(c)] for c in ours]
        )
        if mean is not None:
            rounds.append(RoundRatio(mean, (*ours, *theirs)))
    return rounds


def tpot_log_ratio(
    baseline: Sequence[pd.DataFrame], variant: Sequence[pd.DataFrame]
) -> float | None:
    """Mean over prompts of the paired log TPOT ratio baseline / variant: above 0 is faster.

    Each side: one frame of ``latency.per_request`` a repeat.  Requests pair by their index and
    prompt; a prompt sent several times counts once, by its mean.
    """
    sides = [_log_tpot(frames) for frames in (baseline, variant)]
    difference = (sides[0] - sides[1]).dropna()
    if difference.empty:
        return None
    return float(difference.groupby(level="prompt_id").mean().mean())


def prompts_paired(
    rounds: Sequence[RoundRatio], latencies: Mapping[CellKey, pd.DataFrame]
) -> tuple[int, int]:
    """(requests with a TPOT on both sides, requests that ended well on either), over all rounds."""
    both = either = 0
    for ratio in rounds:
        of_round = defaultdict(list)
        for cell in ratio.cells:
            of_round[cell.variant].append(latencies[key(cell)])
        sides = [_log_tpot(frames).index for frames in of_round.values()]
        ended = [set().union(*(frame.index for frame in frames)) for frames in of_round.values()]
        both += len(sides[0].intersection(sides[-1]))
        either += len(ended[0] | ended[-1])
    return both, either


def _log_tpot(frames: Sequence[pd.DataFrame]) -> pd.Series:
    """Mean log TPOT over repeats, by (index, prompt_id)."""
    logs = []
    for frame in frames:
        tpot = frame.loc[frame["tpot"] > 0, ["prompt_id", "tpot"]]
        names = pd.MultiIndex.from_arrays(
            [tpot.index, tpot["prompt_id"]], names=["index", "prompt_id"]
        )
        logs.append(pd.Series(np.log(tpot["tpot"].to_numpy(dtype=np.float64)), index=names))
    return pd.concat(logs).groupby(level=["index", "prompt_id"]).mean()
