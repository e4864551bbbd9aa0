"""A failed capture of CUDA graphs in the stack, its log planted: a CPU captures none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compose_checkout import plant, run
from compose_stack import Stack
from project import CAPTURE

pytestmark = pytest.mark.docker

DIES = {"die": {"while_loading": CAPTURE, "unless_eager": True, "variants": ["ngram"]}}
SMALL: dict[str, Any] = {
    "on_graph_failure": "eager_for_all",
    "loads": [{"concurrency": 1, "requests": 2}],
}


def argv(run_folder: Path, variant: str) -> list[str]:
    launch = json.loads((run_folder / variant / "start-0" / "launch.json").read_text())
    return list(launch["argv"])


def both(stack: Stack) -> tuple[Path, Path]:
    """The run with graphs and the one without."""
    runs = [path.parent for path in stack.results.glob("planted/*/manifest.json")]
    assert len(runs) == 2
    first, second = sorted(runs, key=lambda folder: "--enforce-eager" in argv(folder, "ngram"))
    assert "--enforce-eager" not in argv(first, "ngram")
    return first, second


def test_failed_capture_begins_anew_with_graphs_off_for_all(stack: Stack, checkout: Path) -> None:
    plant(stack, checkout, DIES, **SMALL)

    done = run(stack, checkout, "-v", "all", "--runtime", "compose")

    assert done.returncode == 0, done.stdout
    assert "Capturing CUDA graphs failed." in done.stdout
    assert "a new run begins with --enforce-eager for all variants" in done.stdout
    first, second = both(stack)
    assert str(first) in done.stdout
    assert "--enforce-eager" not in argv(first, "vanilla")
    assert (first / "vanilla" / "start-0" / "c1" / "repeat-0" / "requests.parquet").is_file()
    outcome = json.loads((first / "ngram" / "start-0" / "outcome.json").read_text())
    assert "CUDA graphs" in outcome["error"]
    for variant in ("vanilla", "ngram"):
        assert "--enforce-eager" in argv(second, variant)
    summary = json.loads((second / "analysis" / "summary.json").read_text())
    assert {cell["variant"] for cell in summary["cells"]} == {"vanilla", "ngram"}
    stack.assert_stopped()


def test_profile_that_is_started_by_hand_begins_anew_and_others_can_join(stack: Stack) -> None:
    stack.experiment(DIES, **SMALL)

    done = stack.up("ngram", RUN="mine")
    joined = stack.up("vanilla", EAGER="1")

    assert done.returncode == 0, done.stdout
    assert "EAGER=1 docker compose" in done.stdout
    assert "Report: results/planted/mine-eager/analysis/report.md" in done.stdout
    assert joined.returncode == 0, joined.stdout
    first, second = both(stack)
    assert (first.name, second.name) == ("mine", "mine-eager")
    assert "--enforce-eager" in argv(second, "vanilla")
    stack.assert_stopped()
