"""Where nothing can be recommended, the reason named is the one that holds."""

from __future__ import annotations

import pytest

from specgauge.analyze import claims
from specgauge.analyze.document import Cell, Comparison
from specgauge.analyze.recommend import recommend
from specgauge.analyze.records import LoadSetup, RunSetup, VariantSetup
from specgauge.report import numbers

DRAWN = {"method": "eagle3", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic"}
EARNED = {"method": "eagle3", "num_speculative_tokens": 3}


def setup(**variants: dict[str, object] | None) -> RunSetup:
    named = tuple(VariantSetup(n, c) for n, c in {"vanilla": None, **variants}.items())
    return RunSetup("e", "r", "m", "vanilla", named, (LoadSetup("c16", 64, 16),))


def point(variant: str, speedup: float, rounds: int = 1, verdict: str = "VALID") -> Comparison:
    return Comparison(
        variant=variant, against="vanilla", load="c16", metric="output_tok_s", basis="observed",
        speedup=speedup, low=None, high=None, rounds=rounds, per_round=[], headline=True,
        verdict=verdict, reasons=[] if verdict == "VALID" else ["DRIFT"],
    )  # fmt: skip


def cell(variant: str, because: str | None) -> Cell:
    return Cell.model_construct(variant=variant, load="c16", excluded=because is not None,
                                excluded_because=because, reasons=[])  # fmt: skip


def test_synthetic_acceptance_is_told_and_never_to_be_tried() -> None:
    (found,) = recommend(setup(x=DRAWN, y=DRAWN), [point("x", 1.6), point("y", 1.1)], ["c16"])
    assert (found.variant, found.speculative_config, found.claimed) == (None, None, False)
    assert "x at 1.60x the baseline's output throughput is the highest" in found.text
    assert "try x" not in found.text
    assert "stay with" not in found.text


def test_a_real_drafter_beside_it_is_judged_alone() -> None:
    rows = [point("x", 1.6), point("real", 1.3)]
    (found,) = recommend(setup(x=DRAWN, real=EARNED), rows, ["c16"])
    assert found.variant == "real"
    assert "try real" in found.text


def test_a_baseline_that_was_measured_and_does_not_count_is_not_missing() -> None:
    (found,) = recommend(setup(), [], ["c16"], [cell("vanilla", "INVALID")])
    assert found.text.endswith("no measurement of the baseline (vanilla) counts there.")


def test_a_run_of_the_baseline_alone_blames_no_variant() -> None:
    (found,) = recommend(setup(), [], ["c16"], [cell("vanilla", None)])
    assert found.text.endswith("only the baseline (vanilla) is part of this run.")


def test_unequal_rounds_are_not_called_the_most_of_them() -> None:
    rows = [point("a", 0.9, rounds=1), point("b", 0.8, rounds=2)]
    (found,) = recommend(setup(a=EARNED, b=EARNED), rows, ["c16"])
    assert "At most 2 rounds: neither a win nor a loss is claimed" in found.text


@pytest.mark.parametrize(("p", "word"), [(0.02, "loss, unproven"), (0.2, "no difference shown")])
def test_what_is_one_of_many_claims_is_unproven_and_says_so(p: float, word: str) -> None:
    """0.4x in all of three rounds; p = 0.02 alone, 0.08 as one of four claims."""
    told = (("a", 0.4, p), ("b", 1.0, 0.9), ("c", 1.0, 0.9), ("d", 1.1, p))
    rows = [point(v, s, rounds=3).model_copy(update={"p": q}) for v, s, q in told]
    judged = claims.corrected(rows)
    assert numbers.claim(judged[0]) == word
    (found,) = recommend(setup(**dict.fromkeys("abcd", EARNED)), judged, ["c16"])
    assert "stay with vanilla: no variant is faster beyond doubt (the highest: d" in found.text
    assert (", p 0.08 with all claims of the run)" in found.text) is (p < claims.ALPHA)
