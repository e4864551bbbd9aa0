"""TOO_FEW: a claim without the samples or rounds for it is struck; nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze import throughput, words
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.stats import MIN_ROUNDS, samples_for

CODE = "TOO_FEW"

PER_ROUND = "per_round"
"""Evidence: the speed-ups of a comparison's rounds."""

PERCENTILES = (0.5, 0.9, 0.99)

MOST_PAIRED = 0.9
"""Share of the requests with a TPOT on both sides from which the others are not worth a word."""


def check(cell: CellContext) -> Reason | None:
    """Names the percentiles and the full-batch throughput that lack requests."""
    requests = len(cell.latencies)
    struck = [f"p{q * 100:g} ({samples_for(q)})" for q in PERCENTILES if requests < samples_for(q)]
    concurrency = cell.load.concurrency
    if concurrency and len(cell.requests) < throughput.FULL_BATCH_REQUESTS * concurrency:
        needed = throughput.FULL_BATCH_REQUESTS * concurrency
        struck.append(f"full-batch throughput ({needed})")
    if not struck:
        return None
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=f"Not given for {requests} requests (needed): {', '.join(struck)}.",
        remedy="More requests in the load.",
        evidence={"requests": requests},
    )


def rounds(ratios: Sequence[float]) -> Reason | None:
    """Strikes win and loss from a comparison of fewer than three rounds; tells what two gave.

    ``ratios``: the speed-up of each round.  Their mean alone would hide that two differ.
    """
    count = len(ratios)
    if count >= MIN_ROUNDS:
        return None
    each = ", ".join(words.times(ratio) for ratio in ratios)
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=(f"{count} rounds ({each})" if count > 1 else "1 round")
        + ": a point, no interval; neither a win nor a loss is claimed.",
        remedy=f"At least {MIN_ROUNDS} rounds; five resolve about 2 %.",
        evidence={"rounds": count, PER_ROUND: each},
    )


def pairs(both: int, of: int) -> Reason | None:
    """Says how many requests a TPOT speed-up rests on, where it is not nearly all.

    A request that ends within its first chunk, or is missing on one side, has none to compare:
    what is left may be another kind of request.
    """
    if not of or both >= MOST_PAIRED * of:
        return None
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=f"The TPOT speed-up rests on {both} of {of} requests: the others have no TPOT on "
        "both sides (outputs that end within their first chunk).",
        remedy="Longer outputs, or the throughput and E2E of the same rows.",
        evidence={"paired": both, "of": of},
    )


def no_common_round(mine: Sequence[int], base: Sequence[int]) -> Reason:
    """Says that the sides' rounds (those that count) do not meet."""
    return Reason(
        code=CODE,
        severity="info",
        scope="claim",
        detail=f"No round was measured on both sides (the variant's: {_numbers(mine)}; the "
        f"baseline's: {_numbers(base)}): nothing is compared.",
        remedy="Run the same command again: it makes the rounds that are missing.",
        evidence={"rounds": 0},
    )


def _numbers(rounds: Sequence[int]) -> str:
    return ", ".join(str(r) for r in rounds)
