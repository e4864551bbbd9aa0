"""What is claimed, on what it rests, and what only taints it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from frozen import stop
from short_runs import C1, of, other, vanilla
from synthetic_run import (
    BASE,
    NGRAM,
    VANILLA_LOG,
    Plant,
    StartPlant,
    build_cell,
    write_run,
)
from test_freezes import context

from specgauge.analyze import across_cells, claims, latency, pairing, speedup, validity
from specgauge.analyze.derived import derive
from specgauge.analyze.document import (
    Cell,
    Comparison,
    Derived,
    Observed,
    Reason,
    Spread,
)
from specgauge.analyze.machine_document import GpuFigures
from specgauge.analyze.recommend import recommend
from specgauge.analyze.records import CellRecord, LoadSetup, RunSetup, VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.analyze.validity import drift, lossy, too_few
from specgauge.record.reader import read_run


def comparison(variant: str, speedup: float, p: float | None, **more: object) -> Comparison:
    values = {
        "variant": variant, "against": "vanilla", "load": "c1", "metric": "output_tok_s",
        "basis": "observed", "speedup": speedup, "rounds": 5 if p is not None else 1,
        "low": speedup * 0.98 if p is not None else None,
        "high": speedup * 1.02 if p is not None else None,
        "per_round": [], "verdict": "VALID", "reasons": [], "headline": True, "p": p,
    }  # fmt: skip
    return Comparison.model_validate({**values, **more})


def test_a_freeze_taken_off_is_corrected_for_as_many_claims_as_the_headline_makes() -> None:
    """p = 0.03 among four claims is none, however sure the rows beside it are."""
    raw = [comparison(v, 1.0, 0.5) for v in "abcd"]
    tpots = [comparison(v, 1.5, 1e-6, metric="tpot", headline=False) for v in "abcd"]
    taken = comparison("a", 1.1, 0.03, basis="derived", headline=False)
    found = {(c.variant, c.metric, c.basis): c for c in claims.corrected([*raw, *tpots, taken])}
    assert found["a", "output_tok_s", "derived"].p_holm == pytest.approx(4 * 0.03)
    assert found["a", "output_tok_s", "derived"].significant is False
    assert found["a", "output_tok_s", "observed"].p_holm == 1.0
    assert found["a", "tpot", "observed"].p_holm == pytest.approx(4e-6)


def test_an_invalid_row_claims_nothing_and_costs_the_others_nothing() -> None:
    rows = [comparison("a", 2.0, 1e-6, verdict="INVALID"), comparison("b", 1.1, 0.03)]
    invalid, other_one = claims.corrected(rows)
    assert (invalid.p_holm, invalid.significant) == (None, None)
    assert (other_one.p_holm, other_one.significant) == (0.03, True)


def test_derived_rows_without_a_headline_are_a_family_of_their_own() -> None:
    rows = [comparison(v, 1.1, 0.02, basis="derived", headline=False) for v in "ab"]
    assert [c.p_holm for c in claims.corrected(rows)] == pytest.approx([0.04, 0.04])


def test_a_repeat_without_a_number_counts_on_neither_side() -> None:
    def one(repeat: int, rate: float | None, variant: str) -> Cell:
        observed = Observed.model_construct(output_tok_s=rate)
        return Cell.model_construct(
            variant=variant, load="c1", start=0, repeat=repeat, round=0, excluded=False,
            observed=observed,
        )  # fmt: skip

    mine = [one(0, 20.0, "x"), one(1, None, "x")]
    base = [one(0, 10.0, "vanilla"), one(1, 40.0, "vanilla")]
    (found,) = pairing.throughput_rounds(mine, base)
    assert 2.718281828**found.log_ratio == pytest.approx(2.0)


def test_rounds_that_do_not_meet_are_told(tmp_path: Path) -> None:
    starts = {("vanilla", 0): vanilla(0.03, round=0), ("x", 0): other(0.02, round=1)}
    found = of(summarise(read_run(write_run(tmp_path / "r", starts, loads=C1, rounds=2))))
    assert (found.speedup, found.label) == (None, None)
    (note,) = [n for n in found.notes if n.code == "TOO_FEW"]
    assert "variant's: 1; the baseline's: 0" in note.detail


def test_a_tpot_speedup_says_how_many_requests_it_rests_on(tmp_path: Path) -> None:
    """Half of the outputs end within their first chunk: no TPOT, and nobody to ask."""
    starts = {("vanilla", 0): vanilla(0.03), ("x", 0): other(0.02)}
    run = read_run(write_run(tmp_path / "r", starts, loads=C1))
    short = run.starts[1].cells[0]
    chunks = short.chunks[(short.chunks["request"] % 2 == 0) | (short.chunks["seq"] == 0)]
    of_one = replace(short, chunks=chunks)
    latencies = {
        ("vanilla", 0, "c1", 0): summarised(run.starts[0].cells[0]),
        ("x", 0, "c1", 0): summarised(of_one).assign(
            tpot=lambda f: f["tpot"].where(f.index % 2 == 0)
        ),
    }
    cells = list(summarise(run).cells)
    found = [c for c in speedup.compare(cells, latencies, "vanilla", {}) if c.metric == "tpot"]
    (note,) = [n for n in found[0].notes if "rests on" in n.detail]
    assert (note.evidence["paired"], note.evidence["of"]) == (4, 8)
    assert too_few.pairs(8, 8) is None
    assert too_few.pairs(0, 0) is None


def summarised(record: CellRecord) -> pd.DataFrame:
    return latency.per_request(record.requests, record.chunks)


def baseline(role: str, **observed: object) -> Cell:
    figures = {"output_tok_s": 100.0, "tpot_ms": Spread(mean=10.0), **observed}
    derived = figures.pop("derived", None)
    return Cell.model_construct(
        variant="vanilla", load="l", start=0, repeat=0, round=0, role=role, verdict="VALID",
        excluded=role == "drift", excluded_because=role if role == "drift" else None,
        concurrency=None, rate=figures.pop("rate", None), derived=derived, reasons=[],
        observed=Observed.model_construct(**figures),
    )  # fmt: skip


@pytest.mark.parametrize(("last", "called"), [(10.2, False), (10.4, True), (9.6, True)])
def test_open_loads_drift_in_their_tpot(last: float, called: bool) -> None:
    """Their throughput is the offered rate, whatever the machine does."""
    ends = [baseline("round", rate=4.0), baseline("drift", rate=4.0, tpot_ms=Spread(mean=last))]
    found = drift.check(ends, "vanilla", "l")
    assert (found is not None) is called
    if found:
        assert "ms a token" in found.detail


def test_a_confirmed_freeze_is_no_drift() -> None:
    confirmed = Derived(frozen_s=2, output_tok_s=100.0, from_="chunks", verdict="VALID",
                        confirmation="CONFIRMED ONE-OFF")  # fmt: skip
    recurs = confirmed.model_copy(update={"verdict": "SUSPECT", "confirmation": "RECURS"})
    for derived, called in ((confirmed, False), (recurs, True), (None, True)):
        ends = [baseline("round"), baseline("drift", output_tok_s=80.0, derived=derived)]
        assert (drift.check(ends, "vanilla", "l") is not None) is called


def test_a_last_start_that_is_missing_is_one_reason_and_the_rounds_speak() -> None:
    def cell(load: str, round_: int, tok_s: float) -> Cell:
        return baseline("round", output_tok_s=tok_s).model_copy(
            update={"load": load, "round": round_}
        )

    cells = [cell("a", k, 400.0 - 50 * k) for k in range(3)] + [cell("b", 0, 50.0)]
    assert drift.check(cells, "vanilla", "a") is None
    (found,) = drift.unseen(cells, "vanilla", ["a", "b"], planned=True)
    assert found.detail.startswith("a, b: vanilla was to be measured again")
    assert found.detail.endswith("From its first counted round to its last: a -25.0%.")
    assert drift.unseen(cells, "vanilla", ["a", "b"], planned=False) == []


@pytest.mark.parametrize(("second", "called"), [(98.0, False), (75.6, True)])
def test_two_rounds_have_no_interval_and_their_baseline_tells(second: float, called: bool) -> None:
    """As on a disturbed H200 host: 459 tok/s in the first round, 347 in the second."""
    rounds = [
        baseline("round", output_tok_s=value).model_copy(update={"round": k})
        for k, value in enumerate((100.0, second))
    ]
    found = drift.check(rounds, "vanilla", "l")
    assert (found is not None) is called
    assert drift.unseen(rounds, "vanilla", ["l"], planned=True) == []
    if found:
        assert found.severity == "suspect"
        assert "-24.4%" in found.detail


def test_a_machine_that_drifted_drifted_for_the_matched_baseline_too(tmp_path: Path) -> None:
    starts = {
        ("vanilla", 0): vanilla(0.03),
        ("vanilla_v1", 0): vanilla(0.04),
        ("x", 0): other(0.02),
        ("vanilla", 1): vanilla(0.033, role="drift", round=1),
    }
    run = write_run(tmp_path / "r", starts, loads=C1, matched={"x": "vanilla_v1"})
    for found in summarise(read_run(run)).matched_comparisons:
        assert (found.verdict, found.reasons) == ("SUSPECT", ["DRIFT"])


@pytest.mark.parametrize(("concurrency", "verdict"), [(1, "VALID"), (4, "SUSPECT")])
def test_a_warm_cache_reaches_tpot_where_requests_share_steps(
    tmp_path: Path, concurrency: int, verdict: str
) -> None:
    cold = replace(BASE, prompt_tokens=400, concurrency=concurrency, requests=16)
    load = f"c{concurrency}"
    starts = {
        ("vanilla", 0): StartPlant({load: [cold]}, log=VANILLA_LOG),
        ("x", 0): StartPlant({load: [replace(cold, cached_share=0.9)]}, speculative_config=NGRAM),
    }
    loads = ({"requests": 16, "concurrency": concurrency},)
    summary = summarise(read_run(write_run(tmp_path / "r", starts, loads=loads)))
    assert of(summary, "tpot", load).verdict == verdict
    assert of(summary, load=load).verdict == "SUSPECT"


def test_divergences_that_nobody_asked_about_count_like_those_that_were() -> None:
    asked = lossy.Leaving(requests=128, parted=100, positions=(), margins=(1.0,) * 2 + (0.0,) * 14)
    own = lossy.Leaving(requests=128, parted=10, positions=(), margins=(1.0,) * 2 + (0.0,) * 8)
    assert asked.sure == own.sure
    assert asked.share == pytest.approx(100 / 128 / 8)
    assert own.share == pytest.approx(10 / 128 / 5)
    assert lossy.Leaving(16, 3, (), ()).share == 0.0


SETUP = RunSetup(
    "e", "r", "m", "vanilla",
    tuple(VariantSetup(n, {"method": n} if n != "vanilla" else None)
          for n in ("vanilla", "x", "y", "z")),
    (LoadSetup("c1", 8, 1),), rounds=5,
)  # fmt: skip


def advice(*rows: Comparison, cells: tuple[Cell, ...] = ()) -> tuple[str | None, bool, str]:
    (found,) = recommend(SETUP, claims.corrected(rows), ["c1"], cells)
    return found.variant, found.claimed, found.text


def test_a_suspect_gain_is_told_and_not_recommended() -> None:
    suspect = {"verdict": "SUSPECT", "reasons": ["FREEZE"]}
    chosen, claimed, text = advice(comparison("x", 1.5, 1e-4, **suspect))
    assert (chosen, claimed) == ("vanilla", False)
    assert "1.50x" in text
    assert "SUSPECT: FREEZE" in text
    assert "deploy" not in text
    chosen, claimed, text = advice(
        comparison("x", 1.5, 1e-4, **suspect), comparison("y", 1.2, 1e-4)
    )
    assert (chosen, claimed) == ("y", True)
    assert "Left out: x at 1.50x - SUSPECT: FREEZE" in text


def test_a_suspect_point_is_not_named_to_be_tried() -> None:
    suspect = {"verdict": "SUSPECT", "reasons": ["DRIFT"]}
    chosen, claimed, text = advice(comparison("x", 1.7, None, **suspect))
    assert (chosen, claimed) == (None, False)
    assert "1.70x" in text
    assert "try x" not in text
    chosen, _, text = advice(comparison("x", 1.7, None, **suspect), comparison("y", 1.3, None))
    assert chosen == "y"
    assert "try y (1.30x, VALID)" in text
    chosen, _, text = advice(comparison("x", 0.9, None, **suspect))
    assert chosen == "vanilla"


def test_one_variant_with_a_round_only_does_not_strike_the_others_claims() -> None:
    chosen, claimed, text = advice(comparison("x", 1.3, 1e-4), comparison("y", 1.9, None))
    assert (chosen, claimed) == ("x", True)
    assert "Too few rounds to claim anything: y at 1.90x (1 round)" in text


def test_settings_that_are_not_told_apart_are_named() -> None:
    rows = [comparison("x", 1.50, 1e-4), comparison("y", 1.48, 1e-4), comparison("z", 1.2, 1e-4)]
    chosen, _, text = advice(*rows)
    assert chosen == "x"
    assert "Not told apart from y (1.48x" in text
    assert "z" not in text.replace("z.", "")


def test_a_gain_that_is_real_and_tiny_is_no_reason_to_move() -> None:
    chosen, claimed, text = advice(comparison("x", 1.012, 1e-4))
    assert (chosen, claimed) == ("vanilla", True)
    assert "no variant is faster by more than 2%" in text


def latency_cell(variant: str, ttft: float, tpot: float, p99: float | None) -> Cell:
    observed = Observed.model_construct(
        ttft_ms=Spread(mean=ttft, p99=p99), ttft_scheduled_ms=None, tpot_ms=Spread(mean=tpot),
        e2e_ms=Spread(), e2e_scheduled_ms=None,
    )  # fmt: skip
    return Cell.model_construct(
        variant=variant, load="c1", excluded=False, observed=observed, rate=None, reasons=[]
    )


def test_what_gets_worse_is_named_with_the_gain() -> None:
    cells = (latency_cell("vanilla", 177, 30, 300), latency_cell("x", 230, 20, 900))
    _, _, text = advice(comparison("x", 1.5, 1e-4), cells=cells)
    assert text.startswith("c1: deploy x")
    assert "Worse there: TTFT 177 → 230 ms, TTFT p99 300 → 900 ms." in text
    _, _, text = advice(comparison("x", 1.5, None), cells=cells)
    assert "Worse there: TTFT 177 → 230 ms" in text
    freeze = Reason(code="FREEZE", severity="suspect", detail="")
    frozen = (cells[0], cells[1].model_copy(update={"reasons": [freeze]}))
    assert "Worse" not in advice(comparison("x", 1.5, 1e-4), cells=frozen)[2]
    alike = (latency_cell("vanilla", 177, 30, None), latency_cell("x", 180, 20, None))
    assert "Worse" not in advice(comparison("x", 1.5, 1e-4), cells=alike)[2]


def test_a_load_without_the_variant_does_not_blame_the_baseline() -> None:
    measured = latency_cell("vanilla", 177, 30, None)
    assert "no variant's measurement counts" in advice(cells=(measured,))[2]
    assert "no measured baseline (vanilla)" in advice()[2]


def test_other_clocks_taint_the_corrected_figure_too() -> None:
    """A confirmed freeze is taken off; that the card ran slower in one start is not."""
    derived = Derived(frozen_s=2, output_tok_s=100.0, from_="chunks", verdict="VALID",
                      confirmation="CONFIRMED ONE-OFF")  # fmt: skip

    def start(number: int, clock: float) -> Cell:
        gpu = GpuFigures.model_construct(sm_clock_mhz=clock)
        return baseline("round", gpu=gpu, derived=derived).model_copy(update={"start": number})

    found = across_cells.noted([start(0, 1980.0), start(1, 1800.0)])
    assert [(c.verdict, c.derived.verdict) for c in found if c.derived] == [("SUSPECT",) * 2] * 2
    alike = across_cells.noted([start(0, 1980.0), start(1, 1970.0)])
    assert [c.derived.verdict for c in alike if c.derived] == ["VALID"] * 2


def test_an_open_loads_freeze_leaves_its_throughput_at_the_offered_rate() -> None:
    """Tokens / (duration - frozen) would be more than was ever asked for."""
    plant = Plant(requests=40, concurrency=None, rate=2.0, output_tokens=64, step_s=0.02)
    built = stop(build_cell(plant), 1003.0, 2.0)
    of_open = context(built)
    assert of_open.freezes
    derived = derive(of_open, validity.check_cell(of_open))
    assert derived is not None
    assert derived.frozen_s > 1.5
    assert derived.output_tok_s is None
