"""The GPU run of results/examples: its report follows from its records, README from its report."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specgauge.analyze import weights
from specgauge.analyze.document import Cell, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run

ROOT = Path(__file__).parents[2]
RUN = ROOT / "results" / "examples" / "h200-qwen3-shapes"
ENERGY_W = (500.0, 710.0)
"""A card of 700 W under a 32B model at c64."""


@cache
def derived() -> Summary:
    return summarise(read_run(RUN))


def committed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RUN / "analysis" / "summary.json").read_text())
    return found


def test_the_committed_summary_follows_from_the_committed_records() -> None:
    now = {(c.variant, c.load): c for c in derived().cells}
    then = {(c["variant"], c["load"]): c for c in committed()["cells"]}
    assert now.keys() == then.keys()
    for key, cell in now.items():
        told = then[key]
        assert cell.verdict == told["verdict"], key
        assert sorted(r.code for r in cell.reasons) == sorted(r["code"] for r in told["reasons"])
        for name in ("output_tok_s", "tokens_per_step", "joules_per_token", "acceptance_length"):
            assert getattr(cell.observed, name) == pytest.approx(told["observed"][name]), (
                key,
                name,
            )


def test_dummy_weights_are_nobody_s() -> None:
    """Else results of Qwen3-32B's own weights would stand beside those of its shapes."""
    assert derived().environment["weights"] == weights.DUMMY


def test_waits_for_prompts_read_ahead_are_no_freeze_on_a_real_card() -> None:
    """1.58 s without a chunk at c64, and the card's energy counter shows it at work throughout."""
    for cell in derived().cells:
        assert not {"FREEZE", "PREEMPTED"} & {r.code for r in cell.reasons}, (
            cell.variant,
            cell.load,
        )
        if cell.load == "c64":
            assert cell.observed.gpu is not None
            assert ENERGY_W[0] < (cell.observed.gpu.power_w or 0) < ENERGY_W[1]


def test_the_card_s_rest_is_seen_and_taken_off() -> None:
    """117 W with the server up, by hand from the counter between cells; 41 to 55 degrees."""
    for cell in derived().cells:
        seen, gpu = cell.observed, cell.observed.gpu
        assert gpu is not None
        assert gpu.rest_power_w == pytest.approx(117.0, abs=1.0), (cell.variant, cell.load)
        assert (gpu.rest_swing_w or 9.0) < 1.0
        above = ((gpu.power_w or 0) - (gpu.rest_power_w or 0)) / (seen.output_tok_s or 1)
        assert seen.joules_per_token_above_rest == pytest.approx(above, rel=1e-6)


def test_vllm_drew_the_acceptance_that_was_asked_for() -> None:
    """Per position: 0.62, 0.37, 0.23 asked of eagle3; 3 standard errors of its drafts at c64."""
    (cell,) = of("eagle3_synthetic", "c64")
    drafts = cell.observed.drafts or 0
    assert drafts > 10_000
    for seen, asked in zip(cell.observed.acceptance_by_position, (0.62, 0.37, 0.23), strict=True):
        assert seen == pytest.approx(asked, abs=3 * (asked * (1 - asked) / drafts) ** 0.5)


def of(variant: str, load: str) -> list[Cell]:
    return [c for c in derived().cells if (c.variant, c.load) == (variant, load)]


def test_the_readme_s_table_is_the_run_s() -> None:
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## On an H200") :].partition("\n## ")[0]
    rows = re.findall(r"^\| (c\d+) \| (\w+) \| (.+) \|$", section, re.MULTILINE)
    speedups = {
        (c.variant, c.load): c.speedup
        for c in derived().comparisons
        if c.metric == "output_tok_s" and c.basis == "observed"
    }
    assert len(rows) == len(derived().cells) == 12
    for load, name, rest in rows:
        told = [x.strip() for x in rest.split("|")]
        variant = name if name == "vanilla" else f"{name}_synthetic"
        (cell,) = of(variant, load)
        seen = cell.observed
        assert seen.gpu is not None
        figures = (seen.tokens_per_step, seen.step_ms.mean, seen.output_tok_s,
                   speedups.get((variant, load), 1.0), seen.joules_per_token,
                   seen.gpu.sm_clock_mhz)  # fmt: skip
        for shown, figure in zip(told, figures, strict=False):
            number = shown.rstrip("x").replace(",", "")
            half_a_digit = 0.5 * 10 ** -len(number.partition(".")[2])
            assert float(number) == pytest.approx(figure, abs=1.001 * half_a_digit), (load, name)
        assert told[-1].split()[0] == cell.verdict


def test_a_thread_that_spins_beside_a_busy_card_is_not_called_the_pace() -> None:
    """ngram's engine was on a CPU for 99 % of its cells, the card at work for 76 to 88 %."""
    shares = {
        (c.variant, c.load): c.observed.cpu.engine_share or 0
        for c in derived().cells
        if c.observed.cpu
    }
    assert min(share for (name, _), share in shares.items() if name.startswith("ngram")) > 0.95
    assert shares["vanilla", "c1"] < 0.3
    assert "CPU_BOUND" not in [r.code for c in derived().cells for r in c.reasons]
