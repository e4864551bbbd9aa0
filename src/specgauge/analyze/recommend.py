"""The setting to deploy for each load, in words that claim no more than was measured."""

from __future__ import annotations

from collections.abc import Sequence

from specgauge.analyze.document import Comparison, Recommendation
from specgauge.analyze.records import RunSetup

MATERIAL = 0.02
"""Of two settings within 2 % the simpler one (the baseline) is not worth leaving."""


def recommend(
    setup: RunSetup, comparisons: Sequence[Comparison], loads: Sequence[str]
) -> list[Recommendation]:
    """One recommendation per load, from its headline comparisons; INVALID ones have no say.

    From three rounds: the fastest variant whose gain is significant after Holm's correction, else
    the baseline.  Below: the highest point, named as a point.
    """
    found = []
    for load in loads:
        rows = [_believed(c, comparisons) for c in comparisons if c.load == load and c.headline]
        usable = [c for c in rows if c.verdict != "INVALID" and c.speedup is not None]
        found.append(_for_load(setup, load, rows, usable))
    return found


def _believed(headline: Comparison, comparisons: Sequence[Comparison]) -> Comparison:
    """The corrected comparison in its place, where that one is VALID and the raw one is not."""
    if headline.verdict == "VALID":
        return headline
    wanted = (headline.variant, headline.load, headline.metric, "derived")
    for c in comparisons:
        if (c.variant, c.load, c.metric, c.basis) == wanted and c.verdict == "VALID":
            return c
    return headline


def _for_load(
    setup: RunSetup, load: str, rows: Sequence[Comparison], usable: Sequence[Comparison]
) -> Recommendation:
    if not usable:
        why = (
            "no variant has a usable comparison with the baseline (see the verdicts)"
            if rows
            else f"this run has no measured baseline ({setup.baseline}) to compare with"
        )
        return Recommendation(load=load, variant=None, speculative_config=None, claimed=False,
                              text=f"{load}: nothing can be recommended: {why}.")  # fmt: skip
    claimable = [c for c in usable if c.significant is not None]
    if len(claimable) == len(usable):
        return _claimed(setup, load, claimable)
    best = max(usable, key=_speedup)
    return _indicative(setup, load, best)


def _indicative(setup: RunSetup, load: str, best: Comparison) -> Recommendation:
    what = _what(best)
    rounds = "one round" if best.rounds == 1 else f"{best.rounds} rounds"
    doubt = _doubt(best)
    if _speedup(best) > 1 + MATERIAL:
        text = (
            f"{load}: the highest point is {best.variant} at {_speedup(best):.2f}x the baseline's "
            f"{what}{doubt}. {rounds.capitalize()}: neither a win nor a loss is claimed; if you "
            f"must choose today, try {best.variant}, and measure at least 3 rounds before it "
            "serves."
        )
        variant = best.variant
    else:
        text = (
            f"{load}: no variant's point lies more than {MATERIAL:.0%} above the baseline "
            f"(the highest: {best.variant} at {_speedup(best):.2f}x){doubt}. "
            f"{rounds.capitalize()}: neither a win nor a loss is claimed; if you must choose "
            f"today, stay with {setup.baseline}."
        )
        variant = setup.baseline
    return Recommendation(load=load, variant=variant, claimed=False, text=text,
                          speculative_config=setup.variant(variant).speculative_config)  # fmt: skip


def _claimed(setup: RunSetup, load: str, rows: Sequence[Comparison]) -> Recommendation:
    wins = [c for c in rows if c.significant and _speedup(c) > 1]
    if wins:
        best = max(wins, key=_speedup)
        text = (
            f"{load}: deploy {best.variant}: {_speedup(best):.2f}x the baseline's {_what(best)} "
            f"({_interval(best)}, {best.rounds} rounds){_doubt(best)}."
        )
        variant = best.variant
    else:
        best = max(rows, key=_speedup)
        losing = all(c.significant and _speedup(c) < 1 for c in rows)
        found = "every variant is slower" if losing else "no variant is faster beyond doubt"
        text = (
            f"{load}: stay with {setup.baseline}: {found} (the highest: {best.variant} at "
            f"{_speedup(best):.2f}x, {_interval(best)}){_doubt(best)}."
        )
        variant = setup.baseline
    return Recommendation(load=load, variant=variant, claimed=True, text=text,
                          speculative_config=setup.variant(variant).speculative_config)  # fmt: skip


def _speedup(comparison: Comparison) -> float:
    return comparison.speedup or 0.0


def _what(comparison: Comparison) -> str:
    if comparison.metric == "tpot":
        return "token rate (TPOT)"
    corrected = ", freezes taken off" if comparison.basis == "derived" else ""
    return f"output throughput{corrected}"


def _interval(comparison: Comparison) -> str:
    if comparison.low is None or comparison.high is None:
        return "no interval"
    return f"95 % interval {comparison.low:.2f} to {comparison.high:.2f}"


def _doubt(comparison: Comparison) -> str:
    if comparison.verdict == "VALID":
        return ""
    return f" - {comparison.verdict}: {', '.join(comparison.reasons)}"
