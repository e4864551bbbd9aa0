"""The three-round GPU run of results/examples: what README says of it is what its records give."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from specgauge.analyze.document import Cell, Comparison, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report import numbers, tables, words

ROOT = Path(__file__).parents[2]
RUN = ROOT / "results" / "examples" / "h200-smollm2"
LOADS = ("c1", "c4", "c16", "c64")


@cache
def derived() -> Summary:
    return summarise(read_run(RUN))


def compared(variant: str, load: str) -> Comparison:
    found = tables.find(derived().comparisons, variant, load, "output_tok_s")
    assert found is not None
    return found


def section() -> str:
    text = (ROOT / "README.md").read_text()
    return text[text.index("### A small model's real weights") :].partition("\n## ")[0]


def test_the_committed_summary_follows_from_the_committed_records() -> None:
    committed = json.loads((RUN / "analysis" / "summary.json").read_text())
    then = {(c["variant"], c["load"], c["start"]): c for c in committed["cells"]}
    assert len(then) == 64
    for cell in derived().cells:
        told = then[cell.variant, cell.load, cell.start]
        assert cell.verdict == told["verdict"]
        assert sorted(r.code for r in cell.reasons) == sorted(r["code"] for r in told["reasons"])
        for name in ("output_tok_s", "tokens_per_step", "joules_per_token"):
            assert getattr(cell.observed, name) == pytest.approx(told["observed"][name])


def test_intervals_are_student_s_over_three_rounds() -> None:
    """Computed here anew, from the ratio of each round."""
    for comparison in derived().comparisons:
        logs = np.log(comparison.per_round)
        assert len(logs) == comparison.rounds == 3
        half = stats.t.ppf(0.975, 2) * logs.std(ddof=1) / 3**0.5
        ends = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
        assert ends == pytest.approx([comparison.low, comparison.speedup, comparison.high])


def test_the_readme_s_table_is_the_run_s() -> None:
    rows = re.findall(
        r"^\| (\w+) \| ([\d.]+)(?: to ([\d.]+))? \| (.+) \|$", section(), re.MULTILINE
    )
    assert [row[0] for row in rows] == [
        "vanilla",
        "vanilla_v1",
        "ngram",
        "ngram_improved",
        "eagle3",
    ]
    for variant, low, high, rest in rows:
        told = rest.split(" | ")
        means = []
        for load, shown in zip(LOADS, told, strict=True):
            cells = [c for c in derived().cells if (c.variant, c.load) == (variant, load)]
            mean = tables.averaged([c for c in cells if not c.excluded])
            means.append(mean["tokens_per_step"] or 0)
            if variant == "vanilla":
                assert shown == f"{numbers.rate(mean['output_tok_s'])} tok/s"
            else:
                found = compared(variant, load)
                assert shown == f"{numbers.times(found.speedup)} ({numbers.interval(found)})"
        assert (low, high or low) == (f"{min(means):.2f}", f"{max(means):.2f}")


def test_the_readme_claims_of_it_what_the_report_does() -> None:
    text = " ".join(section().split())
    standing = words.standing(derived()) or ""
    assert standing.partition(". These")[0] in text
    every = [compared(v, load) for v in ("vanilla_v1", "ngram", "ngram_improved", "eagle3")
             for load in LOADS]  # fmt: skip
    assert {c.verdict for c in every} == {"SUSPECT"}
    assert not any(c.significant for c in every)
    rounds = ", ".join(f"{x:.2f}x" for x in compared("eagle3", "c64").per_round)
    assert re.findall(r"\d\.\d\dx", text[text.index("eagle3 at c64") :])[:3] == rounds.split(", ")
    spreads = [float(r.evidence["spread"] or 0) for c in derived().cells for r in c.reasons
               if r.code == "UNSTEADY"]  # fmt: skip
    assert f"up to {max(spreads):.0%}".replace("%", " %") in text
    clocks = {c.observed.gpu.sm_clock_mhz for c in derived().cells if c.observed.gpu}
    assert {round(clock or 0) for clock in clocks} == {1980}


def test_nobody_was_thrown_out_of_a_batch() -> None:
    """vanilla_v1 at c16: 13.0 of 16 by the gauge's mean, and 13.0 decoding at those moments."""
    assert not [c for c in derived().cells if {"PREEMPTED", "FREEZE"} & {r.code for r in c.reasons}]


def test_the_cpus_set_the_pace_and_kept_none() -> None:
    """Per start, over its loads: the slower its tokens, the slower its answers at rest too."""
    cells = derived().cells
    c64 = [c for c in cells if c.load == "c64"]
    assert len(c64) == 16
    assert all("CPU_BOUND" in [r.code for r in c.reasons] for c in c64)

    def figures(cell: Cell) -> tuple[float, float]:
        """Logarithms of seconds a token and of an answer's time at rest."""
        assert cell.observed.cpu is not None
        rest, rate = cell.observed.cpu.rest_answer_ms, cell.observed.output_tok_s
        assert rest is not None
        assert rate is not None
        return -float(np.log(rate)), float(np.log(rest))

    by_start: dict[tuple[str, int], list[np.ndarray]] = {}
    for cell in cells:
        alike = [c for c in cells if (c.variant, c.load) == (cell.variant, cell.load)]
        usual = np.mean([figures(c) for c in alike], axis=0)
        by_start.setdefault((cell.variant, cell.start), []).append(figures(cell) - usual)
    means = np.array([np.mean(found, axis=0) for found in by_start.values()])
    assert means.shape == (16, 2)
    assert np.corrcoef(means.T)[0, 1] > 0.7
    unsteady = [r for c in cells for r in c.reasons if r.code == "UNSTEADY"]
    slower = [r.detail for r in unsteady if "CPUs ran slower in" in r.detail]
    assert len(slower) > len(unsteady) / 2
    assert all("the card's clock did not change" in text for text in slower)


def test_the_kernel_compiled_after_the_first_token_explains_no_wait_for_it() -> None:
    """4 to 84 ms after it, in all six starts of ngram."""
    told = [
        r.detail for c in derived().cells for r in c.reasons
        if r.code == "FIRST_CALL" and c.variant.startswith("ngram")
    ]  # fmt: skip
    assert len(told) == 6
    for detail in told:
        assert "before its first token" not in detail
        assert "Compiled later in it, by the log: rejection_greedy_sample_kernel." in detail


def test_the_graphs_that_the_baseline_lacks_are_told_of_every_drafting_cell() -> None:
    for cell in derived().cells:
        told = [r for r in cell.reasons if r.code == "FORCED_TRAIT"]
        if cell.variant.startswith("vanilla"):
            assert not told
            continue
        (seen,) = told
        assert "CUDA graphs to 512 tokens, the baseline's to 128" in seen.detail
        assert "max-cudagraph-capture-size: 512" in (seen.remedy or "")
        assert ("full CUDA graphs only" in seen.detail) == cell.variant.startswith("ngram")
    widest = {s.variant: s.traits.cuda_graph_tokens for s in derived().starts}
    assert widest == {"vanilla": 128, "vanilla_v1": 128, "ngram": 512, "ngram_improved": 512,
                      "eagle3": 512}  # fmt: skip


def test_a_first_start_s_cache_is_held_against_a_first_start_s() -> None:
    told = {
        re.findall(r"baseline's ([\d,]+) \(", r.detail)[0]: c.start == 0
        for c in derived().cells
        for r in c.reasons
        if r.code == "FORCED_TRAIT"
    }
    assert told == {"620,416": True, "623,152": False}


def test_ngram_s_steps_with_a_draft_take_less_time_than_those_without() -> None:
    """c1, by chunks: several tokens mean a draft, one token mostly none (docs/gpu-node.md)."""
    text = " ".join((ROOT / "docs" / "gpu-node.md").read_text().split())
    medians: dict[bool, list[float]] = {True: [], False: []}
    for start in read_run(RUN).starts:
        if not start.variant.startswith("ngram"):
            continue
        k = {"ngram": 6, "ngram_improved": 4}[start.variant]
        (cell,) = [c for c in start.cells if c.load == "c1"]
        chunks = cell.chunks.sort_values(["request", "t"])
        gaps = chunks.groupby("request")["t"].diff() * 1e3
        one_step = gaps.notna() & (chunks["tokens"] <= k + 1)
        for drafted, found in medians.items():
            chosen = gaps[one_step & ((chunks["tokens"] > 1) == drafted)]
            found.append(float(chosen.median()))
    assert max(medians[True]) < min(medians[False])
    spans = [f"{min(x):.1f} to {max(x):.1f} ms" for x in (medians[True], medians[False])]
    assert f"{spans[0]} with a draft and {spans[1]} without" in text, spans
