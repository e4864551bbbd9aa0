"""The live line fits its terminal and shows a log's messages; time left is foretold at once."""

from __future__ import annotations

import io
from collections.abc import Hashable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.plan import starts
from specgauge.run.executor import earlier_durations
from specgauge.run.progress import Durations, Progress, cut, readable
from specgauge.run.start import steps_of

ONE = "(APIServer pid=4678) WARNING 11-29 22:13:59 [system_utils.py:255] Found ulimit of 20000"
LONG = " ".join([ONE] * 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (ONE, "Found ulimit of 20000"),
        ("(EngineCore pid=7) INFO 11-29 22:37:34 [file.py:317] up", "up"),
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO:     Started server", "INFO: Started server"),
        ("W1129 22:13:58.494000 4678 .venv-vllm/a/triton.py:53] Triton", "Triton"),
        ("(APIServer pid=4) INFO 11-29 22:13:59 [a.py:347]  ▄▄ ▄█ █  version 1", "version 1"),
        ("(APIServer pid=4) INFO 11-29 22:13:59 [a.py:347]    ▀▀  ▀▀▀▀▀", ""),
        ("[notes] 3 (of 4) shards\tread", "[notes] 3 (of 4) shards read"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_stands_before_a_message_is_not_shown(line: str, message: str) -> None:
    assert readable(line) == message


@pytest.mark.parametrize("columns", [1, 5, 20])
def test_cut_text_fits_and_says_that_it_was_cut(columns: int) -> None:
    for text in ("x" * 40, "模型" * 20, "word " * 9):
        assert cell_len(cut(text, columns)) <= columns
        assert cut(text, columns).endswith("…")
    assert cut("short", 5) == "short"


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("detail", ["", "8/8 requests", LONG, "[/x] " * 50, "模型" * 90])
def test_the_live_line_is_one_line(width: int, detail: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    progress = Progress(console, Durations(), [("launch",)])
    try:
        progress.begin(("launch",), "ngram_improved · starting the server")
        progress.tick(detail)
        assert progress._status is not None
        assert len(console.render_lines(progress._status.renderable)) == 1
    finally:
        progress.close()


def test_a_step_that_nobody_foresaw_leaves_the_rest_foretold() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=False, width=200)
    progress = Progress(console, Durations({"launch": 50, "c1": 30}), [("launch",), ("c1",)])
    progress.begin(("margins",), "x · outputs")
    assert "about 80 s left after this" in text.getvalue()


def test_the_demo_foretells_its_time_before_anything_was_measured(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    resolved = resolve(Project(root), "quick", prompts_needed=False)
    durations = earlier_durations(tmp_path, resolved.experiment)
    steps: list[Hashable] = [
        kind
        for plan in starts(resolved.experiment, resolved.experiment.variants)
        for kind in steps_of(resolved, plan)
    ]
    total = durations.total(steps)
    assert total is not None
    assert 5 * 60 < total < 9 * 60  # its description says about seven minutes
