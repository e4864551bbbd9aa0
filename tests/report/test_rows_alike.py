"""One row for reasons that differ in numbers alone, and none where each number counts."""

from __future__ import annotations

from pathlib import Path

from synthetic_run import write_small_run

from specgauge.analyze.document import MissingCell, Reason
from specgauge.analyze.summary import summarise
from specgauge.record.reader import read_run
from specgauge.report import markdown
from specgauge.report.alike import Seen, together


def capped(share: int, clock: str, **more: object) -> Reason:
    detail = f"Power cap in {share}% of the samples. Mean SM clock {clock} MHz of 1980."
    return Reason(code="THROTTLED", severity="info", detail=detail).model_copy(update=more)


def test_rows_that_differ_in_numbers_alone_are_one() -> None:
    rows = [
        Seen(capped(64, "1,782"), ("vanilla c64",)),
        Seen(Reason(code="JIT", severity="info", detail="1 line."), ("x c1",)),
        Seen(capped(8, "1979"), ("x c1", "x c16")),
        Seen(capped(31, "1902"), ("vanilla c16",)),
    ]
    one, jit = together(rows)
    assert one.reason.detail == (
        "Power cap in 8 to 64% of the samples. Mean SM clock 1,782 to 1979 MHz of 1980."
    )
    assert one.where == ("vanilla c64", "x c1", "x c16", "vanilla c16")
    assert jit.reason.detail == "1 line."


def test_other_words_severities_and_names_stay_apart() -> None:
    rows = [
        Seen(capped(8, "1979"), ("a",)),
        Seen(capped(8, "1979", severity="suspect"), ("b",)),
        Seen(capped(8, "1979", remedy="Cool the card."), ("c",)),
        Seen(capped(8, "1979", detail="Clock of x at c16 differs by 4.0%."), ("d",)),
        Seen(capped(8, "1979", detail="Clock of x at c64 differs by 5.0%."), ("e",)),
        Seen(capped(8, "1979", severity="invalid"), ("f",)),
        Seen(capped(9, "1979", severity="invalid"), ("g",)),
    ]
    assert [row.where for row in together(rows)] == [(x,) for x in "abcdefg"]


def test_a_freeze_and_a_judged_speed_up_keep_their_numbers() -> None:
    frozen = [Reason(code="FREEZE", severity="suspect", detail=f"{s} s.") for s in (1, 2)]
    judged = [
        Reason(code="LOSSY", severity="suspect", scope="claim", detail=f"{x} of 64 outputs.")
        for x in (1, 2)
    ]
    rows = [Seen(reason, (str(k),)) for k, reason in enumerate([*frozen, *judged])]
    assert together(rows) == rows


def test_speed_ups_before_the_degenerate_part_follow_their_places() -> None:
    rows = [
        Seen(Reason(code="DEGENERATE", severity="suspect", scope="claim",
                    detail=f"TPOT speed-up {a}x over whole outputs, {b}x before."), (place,))
        for place, a, b in (("x c1", "1.60", "0.90"), ("x c16", "0.79", "0.70"))
    ]  # fmt: skip
    (one,) = together(rows)
    assert one.where == ("x c1 (1.60, 0.90)", "x c16 (0.79, 0.70)")
    assert one.reason.detail == (
        "TPOT speed-up 0.79 to 1.60x over whole outputs, 0.70 to 0.90x before."
    )


def test_signs_and_decimals_are_ordered_as_numbers() -> None:
    rows = [
        Seen(capped(0, "", code="FORCED_TRAIT", detail=f"KV cache of {n} ({s}%)."), ("x",))
        for n, s in (("256,080", "-4.9"), ("1,265,200", "-1.5"), ("9,000", "+10.0"))
    ]
    (one,) = together(rows)
    assert one.reason.detail == "KV cache of 9,000 to 1,265,200 (-4.9 to +10.0%)."


def test_cells_not_measured_are_one_line_a_round(tmp_path: Path) -> None:
    summary = summarise(read_run(write_small_run(tmp_path / "r")))
    absent = [
        MissingCell(variant="ngram", round=1, load=load, repeat=r, role="round")
        for load in ("c1", "c4")
        for r in (0, 1)
    ]
    text = markdown.render(summary.model_copy(update={"missing": absent}), {})
    assert "- not measured: ngram, round 2: c1, c1 repeat 2, c4, c4 repeat 2" in text
    assert text.count("- not measured") == 1
