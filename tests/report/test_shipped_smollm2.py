"""The three-round GPU run of results/examples: what README says of it is what its records give."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from specgauge.analyze.document import Comparison, Summary
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
