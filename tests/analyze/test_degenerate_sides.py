"""Speed-ups before outputs degenerate: only the side that drafts gains by repetition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic_run import BASE, FAST, NGRAM, StartPlant, write_run

from specgauge.analyze.document import Comparison, Summary
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run

LOAD = ({"requests": 20, "concurrency": 1},)
SLOW_S = 0.2
Edit = Callable[[pd.DataFrame], pd.DataFrame]


def looping(from_seq: int, slower: float = 1.0) -> Edit:
    """From that chunk on each holds one token only; steps before are ``slower``, the end stays."""

    def edit(chunks: pd.DataFrame) -> pd.DataFrame:
        late = chunks["seq"] >= from_seq
        ids = [
            [7] * len(own) if is_late else list(own)
            for own, is_late in zip(chunks["token_ids"], late, strict=True)
        ]
        found = chunks.assign(token_ids=ids)
        for _, rows in chunks.groupby("request"):
            times = rows["t"].to_numpy()
            turn = times[0] + slower * (times[from_seq] - times[0])
            shown = (times[0], times[from_seq], times[-1])
            found.loc[rows.index, "t"] = np.interp(times, shown, (times[0], turn, times[-1]))
        return found.assign(t_user=found["t"] + (chunks["t_user"] - chunks["t"]))

    return edit


def slow_begin(chunks: pd.DataFrame) -> pd.DataFrame:
    """The first two steps of every request are slowed, as by prompts that others bring."""
    later = chunks["seq"] > 0
    return chunks.assign(t=chunks["t"] + SLOW_S * later, t_user=chunks["t_user"] + SLOW_S * later)


def compared(folder: Path, base: list[Edit], mine: list[Edit]) -> Summary:
    starts = {
        ("vanilla", 0): StartPlant({"c1": [replace(BASE, requests=20)]}, speculative_config=None),
        ("ngram", 0): StartPlant({"c1": [replace(FAST, requests=20)]}, speculative_config=NGRAM),
    }
    write_run(folder, starts, loads=LOAD)
    for variant, edits in (("vanilla", base), ("ngram", mine)):
        place = folder / variant / "start-0" / "c1" / "repeat-0"
        chunks = pd.read_parquet(place / "chunks.parquet")
        for edit in edits:
            chunks = edit(chunks)
        chunks.to_parquet(place / "chunks.parquet")
        requests = pd.read_parquet(place / "requests.parquet")
        requests["t_last"] = chunks.groupby("request")["t"].max().to_numpy()
        requests.to_parquet(place / "requests.parquet")
    return summarise(read_run(folder))


def degenerate(summary: Summary) -> list[str]:
    (found,) = [c for c in summary.comparisons if c.metric == "tpot"]
    return [n.detail for n in found.notes if n.code == "DEGENERATE"]


def throughput(summary: Summary) -> Comparison:
    (found,) = [c for c in summary.comparisons if c.metric == "output_tok_s"]
    return found


def test_a_baseline_that_repeats_itself_taints_nobody(tmp_path: Path) -> None:
    """Dummy weights: the baseline loops from its third token, the drafter's outputs do not."""
    summary = compared(tmp_path / "r", [slow_begin, looping(2)], [slow_begin])
    assert degenerate(summary) == []
    assert "DEGENERATE" not in throughput(summary).reasons


def test_a_drafter_that_lives_on_repetition_taints_its_speed_up(tmp_path: Path) -> None:
    summary = compared(tmp_path / "r", [], [looping(20, slower=1.4)])
    (seen,) = degenerate(summary)
    assert "up to where they repeat" in seen
    (note,) = [n for c in summary.comparisons if c.metric == "tpot" for n in c.notes
               if n.code == "DEGENERATE"]  # fmt: skip
    before = note.evidence["speedup_before"]
    plain = compared(tmp_path / "s", [], [])
    (truth,) = [c.speedup for c in plain.comparisons if c.metric == "tpot"]
    assert before == pytest.approx(
        truth / 1.4, rel=0.15
    )  # twenty steps a request of the plant's draws


def test_of_hardly_any_output_no_speed_up_is_made(tmp_path: Path) -> None:
    summary = compared(tmp_path / "r", [looping(1)], [looping(1)])
    assert degenerate(summary) == []
    (cell,) = [c for c in summary.cells if c.variant == "ngram"]
    assert "hardly any output" in next(r.detail for r in cell.reasons if r.code == "DEGENERATE")
    assert throughput(summary).verdict == "SUSPECT"  # by its cell
