"""The setting to deploy for each load, in words that claim no more than was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.analyze import tradeoffs, words
from specgauge.analyze.claims import ALPHA
from specgauge.analyze.document import Cell, Comparison, Recommendation
from specgauge.analyze.records import RunSetup

MATERIAL = 0.02
"""Of two settings within 2 % the simpler one (the baseline) is not worth leaving."""


@dataclass(frozen=True)
class _Load:
    """What there is to say about one load."""

    setup: RunSetup
    name: str
    cells: Sequence[Cell]

    def says(self, variant: str | None, text: str, *, claimed: bool) -> Recommendation:
        config = self.setup.variant(variant).speculative_config if variant else None
        return Recommendation(load=self.name, variant=variant, speculative_config=config,
                              claimed=claimed, text=f"{self.name}: {text}")  # fmt: skip

    def has(self, variant: str) -> bool:
        """Whether a cell of ``variant`` counts."""
        mine = (c for c in self.cells if (c.variant, c.load) == (variant, self.name))
        return any(not c.excluded for c in mine)

    def measured(self, variant: str) -> bool:
        """Whether there is a cell of ``variant``, counting or not."""
        return any((c.variant, c.load) == (variant, self.name) for c in self.cells)

    def without_rivals(self) -> str:
        """Why nothing compares where the baseline's measurement counts."""
        if all(v.name == self.setup.baseline for v in self.setup.variants):
            return f"only the baseline ({self.setup.baseline}) is part of this run"
        return "no variant's measurement counts there"

    def slower(self, judged: Sequence[str]) -> str:
        """That those are slower; all of them only where none was left out.

        One whose measurement is missing, INVALID, of too few rounds or of drawn acceptance was not
        seen to be.
        """
        others = [v.name for v in self.setup.variants if v.name != self.setup.baseline]
        if set(others) <= set(judged):
            return "every variant is slower"
        return f"{', '.join(judged)} {'is' if len(judged) == 1 else 'are'} slower"

    def is_synthetic(self, variant: str) -> bool:
        """Whether its acceptance is drawn: it measures a cost and is no setting to deploy."""
        config = self.setup.variant(variant).speculative_config or {}
        return config.get("rejection_sample_method") == "synthetic"

    def price(self, variant: str) -> str:
        """What is worse with ``variant``, as a sentence; empty if nothing is."""
        named = tradeoffs.worse(self.cells, variant, self.setup.baseline, self.name)
        return f" Worse there: {', '.join(named)}." if named else ""


def recommend(
    setup: RunSetup,
    comparisons: Sequence[Comparison],
    loads: Sequence[str],
    cells: Sequence[Cell] = (),
) -> list[Recommendation]:
    """One recommendation per load, from its headline comparisons; INVALID ones have no say.

    From three rounds: the fastest variant whose gain is significant after Holm's correction, VALID
    and worth leaving the baseline for, else the baseline.  Below: the highest VALID point, named as
    a point.  A SUSPECT number is told, and recommends nothing.
    """
    found = []
    for load in loads:
        rows = [_believed(c, comparisons) for c in comparisons if c.load == load and c.headline]
        usable = [c for c in rows if c.verdict != "INVALID" and c.speedup is not None]
        found.append(_for_load(_Load(setup, load, cells), rows, usable))
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
    load: _Load, rows: Sequence[Comparison], usable: Sequence[Comparison]
) -> Recommendation:
    drawn = [c for c in usable if load.is_synthetic(c.variant)]
    usable = [c for c in usable if c not in drawn]
    if not usable:
        if drawn:
            best = max(drawn, key=_speedup)
            why = (
                f"acceptance was synthetic. {best.variant} at {_times(best)} the baseline's "
                f"{_what(best)}{_doubt(best)} is the highest: what a drafter of that acceptance "
                "would give on this card. Its outputs are no answers: nobody can serve it"
            )
        elif rows:
            why = "no variant has a usable comparison with the baseline (see the verdicts)"
        elif load.has(load.setup.baseline):
            why = load.without_rivals()
        elif load.measured(load.setup.baseline):
            why = f"no measurement of the baseline ({load.setup.baseline}) counts there"
        else:
            why = f"this run has no measured baseline ({load.setup.baseline}) to compare with"
        return load.says(None, f"nothing can be recommended: {why}.", claimed=False)
    claimable = [c for c in usable if c.significant is not None]
    points = [c for c in usable if c.significant is None]
    return _claimed(load, claimable, points) if claimable else _indicative(load, points)


def _indicative(load: _Load, points: Sequence[Comparison]) -> Recommendation:
    """No round enough for an interval."""
    best = max(points, key=_speedup)
    sound = [c for c in points if c.verdict == "VALID"]
    count = max(c.rounds for c in points)
    fewer = "At most " if count > min(c.rounds for c in points) else ""
    rounds = "One round" if count == 1 else f"{fewer}{count} rounds"
    unclaimed = f"{rounds}: neither a win nor a loss is claimed"
    if _speedup(best) <= 1 + MATERIAL:
        return load.says(
            load.setup.baseline,
            f"no variant's point lies more than {MATERIAL:.0%} above the baseline (the highest: "
            f"{best.variant} at {_times(best)}){_doubt(best)}. {unclaimed}; if you must choose "
            f"today, stay with {load.setup.baseline}.",
            claimed=False,
        )
    highest = (
        f"the highest point is {best.variant} at {_times(best)} the baseline's "
        f"{_what(best)}{_doubt(best)}.{load.price(best.variant)} {unclaimed}"
    )
    chosen = max(sound, key=_speedup, default=None)
    if chosen is None or _speedup(chosen) <= 1 + MATERIAL:
        return load.says(
            None,
            f"{highest}, and a SUSPECT point recommends nothing: see what to do about it, then "
            "measure at least 3 rounds.",
            claimed=False,
        )
    named = "" if chosen is best else f" ({_times(chosen)}, VALID){load.price(chosen.variant)}"
    return load.says(
        chosen.variant,
        f"{highest}; if you must choose today, try {chosen.variant}{named.rstrip('.')}, and "
        "measure at least 3 rounds before it serves.",
        claimed=False,
    )


def _claimed(
    load: _Load, rows: Sequence[Comparison], points: Sequence[Comparison]
) -> Recommendation:
    """Rows with an interval; ``points``: those with too few rounds for one."""
    wins = [c for c in rows if c.significant and _speedup(c) > 1 + MATERIAL]
    sound = [c for c in wins if c.verdict == "VALID"]
    also = _unclaimed(points)
    if sound:
        best = max(sound, key=_speedup)
        doubtful = [c for c in wins if c.verdict != "VALID" and _speedup(c) > _speedup(best)]
        text = (
            f"deploy {best.variant}: {_times(best)} the baseline's {_what(best)} "
            f"({_interval(best)}, {best.rounds} rounds).{_rivals(best, sound)}"
            f"{load.price(best.variant)}{_set_aside(doubtful)}{also}"
        )
        return load.says(best.variant, text, claimed=True)
    best = max(rows, key=_speedup)
    if wins:
        best = max(wins, key=_speedup)
        text = (
            f"{best.variant} is ahead at {_times(best)} the baseline's {_what(best)} "
            f"({_interval(best)}, {best.rounds} rounds){_doubt(best)}: a SUSPECT number recommends "
            f"nothing. See what to do about it and measure again; until then stay with "
            f"{load.setup.baseline}.{load.price(best.variant)}{also}"
        )
        return load.says(load.setup.baseline, text, claimed=False)
    if all(c.significant and _speedup(c) < 1 for c in rows):
        found = load.slower([c.variant for c in rows])
    elif any(c.significant and _speedup(c) > 1 for c in rows):
        found = f"no variant is faster by more than {MATERIAL:.0%}"
    else:
        found = "no variant is faster beyond doubt"
    text = (
        f"stay with {load.setup.baseline}: {found} (the highest: {best.variant} at "
        f"{_times(best)}, {_interval(best)}{_corrected(best)}){_doubt(best)}.{also}"
    )
    return load.says(load.setup.baseline, text, claimed=all(c.verdict == "VALID" for c in rows))


def _rivals(best: Comparison, wins: Sequence[Comparison]) -> str:
    """Other wins whose intervals meet the best one's: they are not told apart."""
    meeting = [
        c for c in wins
        if c is not best and None not in (c.high, best.low) and (c.high or 0) >= (best.low or 0)
    ]  # fmt: skip
    named = [f"{c.variant} ({_times(c)}, {_interval(c)})" for c in meeting]
    return f" Not told apart from {', '.join(named)}." if named else ""


def _set_aside(doubtful: Sequence[Comparison]) -> str:
    named = [f"{c.variant} at {_times(c)}{_doubt(c)}" for c in doubtful]
    return f" Left out: {'; '.join(named)}." if named else ""


def _unclaimed(points: Sequence[Comparison]) -> str:
    """Those with too few rounds, in a sentence."""
    named = [
        f"{c.variant} at {_times(c)} ({c.rounds} round{'s' if c.rounds != 1 else ''}{_doubt(c)})"
        for c in points
    ]
    return f" Too few rounds to claim anything: {', '.join(named)}." if named else ""


def _speedup(comparison: Comparison) -> float:
    return comparison.speedup or 0.0


def _times(comparison: Comparison) -> str:
    return words.times(_speedup(comparison))


def _what(comparison: Comparison) -> str:
    if comparison.metric == "tpot":
        return "token rate (TPOT)"
    corrected = ", freezes taken off" if comparison.basis == "derived" else ""
    return f"output throughput{corrected}"


def _interval(comparison: Comparison) -> str:
    if comparison.low is None or comparison.high is None:
        return "no interval"
    return f"95 % interval {words.bound(comparison.low)} to {words.bound(comparison.high)}"


def _corrected(comparison: Comparison) -> str:
    """Why an interval that leaves out 1 claims nothing."""
    if comparison.significant or comparison.p is None or comparison.p >= ALPHA:
        return ""
    return f", p {comparison.p_holm:.2g} with all claims of the run"


def _doubt(comparison: Comparison) -> str:
    if comparison.verdict == "VALID":
        return ""
    return f" - {comparison.verdict}: {', '.join(comparison.reasons)}"
