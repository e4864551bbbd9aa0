"""A planted freeze, found, measured, repeated by ``run`` and named for what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from project import SimulatedProject

pytestmark = pytest.mark.system

KERNEL = "_topk_topp_kernel"
FIRST_OF_C4 = 3  # two requests at c1 come before
TOKENS = 24
LENGTH_S = 1.2


def ngram(k: int) -> dict[str, Any]:
    return {"speculative_config": {"method": "ngram", "num_speculative_tokens": k,
                                   "prompt_lookup_min": 2, "prompt_lookup_max": 4}}  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """One run, one kind of freeze a variant."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    project = SimulatedProject(tmp_path_factory.mktemp("frozen"), port)
    names = {"one_off": 4, "new_stall": 5, "recurs": 6, "between": 7}
    for name, k in names.items():
        project.write("variants", name, ngram(k))
    project.experiment |= {"variants": ["vanilla", *names], "output_tokens": TOKENS}
    opening = {"length_s": LENGTH_S, "at_request": FIRST_OF_C4, "phase": "before_first_token"}
    before_repeat = (2 + 8 + 1) * TOKENS  # c1, c4 and the first request once more
    project.truth |= {
        "variants": {"ngram": {"acceptance": [0.5], "coverage": 0.3}},
        "freezes": [
            {**opening, "log": KERNEL, "variants": ["ngram:4"]},
            {**opening, "variants": ["ngram:5"]},
            {"length_s": 0.8, "after_tokens": before_repeat + 30, "when_batch": 4,
             "phase": "after_first_token", "variants": ["ngram:5"]},
            {"length_s": LENGTH_S, "when_batch": 4, "phase": "arrival", "once": False,
             "variants": ["ngram:6"]},
            {"length_s": 0.7, "after_tokens": 2 * TOKENS + 40, "when_batch": 4,
             "phase": "after_first_token", "log": KERNEL, "variants": ["ngram:7"]},
        ],
    }  # fmt: skip
    process = project.start("run", "-e", "x", "-v", "all")
    try:
        _, said = process.communicate(timeout=300)
    finally:
        process.terminate()
    assert process.returncode in (0, 3), said
    summary = project.summary()
    return summary, project.latest


def cell(summary: Any, variant: str, load: str = "c4") -> Any:
    (found,) = [c for c in summary["cells"] if (c["variant"], c["load"]) == (variant, load)]
    return found


def freezes(found: Any) -> list[Any]:
    return [r for r in found["reasons"] if r["code"] == "FREEZE"]


def test_a_one_off_before_the_first_token_is_confirmed_and_corrected(measured: Any) -> None:
    summary, folder = measured
    found = cell(summary, "one_off")
    (freeze,) = freezes(found)
    assert freeze["severity"] == "suspect"
    assert freeze["cause"] == "JIT"
    assert KERNEL in freeze["detail"]
    assert freeze["evidence"]["kind"] == "before-token"
    assert found["derived"]["confirmation"] == "CONFIRMED ONE-OFF"
    assert found["derived"]["from"] == "confirming repeat"
    assert found["derived"]["frozen_s"] == pytest.approx(LENGTH_S, abs=max(0.05 * LENGTH_S, 0.05))
    repeat = json.loads((folder / "one_off/start-0/confirm-c4/repeat-0/cell.json").read_text())
    assert repeat["state"] == "complete"
    raw, corrected = (
        next(c for c in summary["comparisons"]
             if (c["variant"], c["load"], c["metric"], c["basis"])
             == ("one_off", "c4", "output_tok_s", basis))
        for basis in ("observed", "derived")
    )  # fmt: skip
    assert corrected["speedup"] > 1.5 * raw["speedup"]
    if found["verdict"] == "SUSPECT":  # not INVALID by a starved client of this machine
        assert (raw["verdict"], corrected["verdict"]) == ("SUSPECT", "VALID")


def test_a_freeze_between_chunks_is_measured_there(measured: Any) -> None:
    found = cell(measured[0], "between")
    (freeze,) = freezes(found)
    assert freeze["evidence"]["kind"] == "after-token"
    assert freeze["cause"] == "JIT"
    assert found["derived"]["from"] == "chunks"
    assert found["derived"]["frozen_s"] == pytest.approx(0.7, abs=0.05)
    assert found["derived"]["confirmation"] == "CONFIRMED ONE-OFF"
    assert freeze["evidence"]["witness server's generated tokens"] == "agrees"
    assert freeze["evidence"]["witness server's step histogram"] == "agrees"


def test_a_stall_elsewhere_in_the_repeat_proves_nothing(measured: Any) -> None:
    found = cell(measured[0], "new_stall")
    assert found["derived"]["confirmation"] == "NEW STALL"
    assert found["derived"]["verdict"] in ("SUSPECT", "INVALID")


def test_a_freeze_that_comes_again_is_the_server_s_own(measured: Any) -> None:
    found = cell(measured[0], "recurs")
    assert found["derived"]["confirmation"] == "RECURS"
    assert found["derived"]["verdict"] in ("SUSPECT", "INVALID")


def test_nothing_is_found_where_nothing_was_planted(measured: Any) -> None:
    summary, folder = measured
    for variant in ("vanilla", "one_off", "between"):
        assert not freezes(cell(summary, variant, "c1"))
    assert not freezes(cell(summary, "vanilla"))
    assert not list(folder.glob("vanilla/start-0/confirm-*"))
    report = (folder / "analysis/report.md").read_text()
    assert "Freezes taken off" in report
    assert "CONFIRMED ONE-OFF" in report
