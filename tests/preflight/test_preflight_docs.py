"""docs/preflight.md and the registry say the same, and every row of the seed has its check."""

from __future__ import annotations

import re
from pathlib import Path

from specgauge.preflight.registry import CHECKS

TEXT = (Path(__file__).parents[2] / "docs" / "preflight.md").read_text()
NAMES = [check.name for check in CHECKS]


def section(title: str) -> list[list[str]]:
    """The cells of the rows of the first table below ``title``."""
    body = TEXT.split(f"## {title}\n", 1)[1].split("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_checks_and_their_order() -> None:
    assert [row[0].strip("`") for row in section("The checks, in their order")] == NAMES


def test_every_row_of_the_seed_has_a_check_or_says_what_else_catches_it() -> None:
    rows = section("The original report's traps, and where each is caught")
    for trap, checks, caught in rows:
        named = re.findall(r"`(\w+)`", checks)
        assert set(named) <= set(NAMES), trap
        assert named or checks == "-", trap
        assert caught, trap


def test_seed_s_two_tables_are_whole() -> None:
    """Four symptoms of its first table, five changes of its second, and what its text tells."""
    traps = " ".join(
        row[0] for row in section("The original report's traps, and where each is caught")
    )
    for words in (
        "no kernel image", "JIT finds no compiler", "graph capture", "only eagle3",
        "pkill", "8000", "--disable-log-requests", "0.95", "appended to one file",
        "array.array[int]", "CUDA_VISIBLE_DEVICES=1", "PATH", "fixed sleep", "survive",
    ):  # fmt: skip
        assert words in traps


def test_needed_checks_come_before() -> None:
    for at, check in enumerate(CHECKS):
        assert set(check.needs) <= set(NAMES[:at]), check.name


def test_download_is_last_and_the_costly_want_all() -> None:
    assert NAMES[-2:] == ["smoke", "fetch"]
    assert all(check.needs_all for check in CHECKS[-2:])
