"""The headline in the terminal: the table, what it is worth, what to deploy."""

from __future__ import annotations

from collections import Counter

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from specgauge.analyze.document import Summary
from specgauge.analyze.validity import monitor_off
from specgauge.report import escape, numbers, tables, words
from specgauge.report.table import Table

_COLOURS = {"VALID": "green", "SUSPECT": "yellow", "INVALID": "red"}
_HEADINGS = {
    "output_tok_s": "output\ntok/s",
    "tpot_ms": "TPOT\nms",
    "tpot_speedup": "TPOT\nspeed-up",
    "interval": "95 %\ninterval",
}


TOLD_AT_MOST = 2
"""Reasons of one code that a terminal is told whole."""


def headline(summary: Summary) -> RenderableType:
    """What a person sees when a run ends."""
    parts: list[RenderableType] = []
    if standing := words.standing(summary):
        parts.append(Text(standing, style="bold yellow"))
    parts += [_table(summary), *(Text(text) for text in words.corrected(summary))]
    if fewer := words.fewer_rounds(summary):
        parts.append(Text(escape.printable(fewer), style="dim"))
    parts.append(Text(words.status(summary)))
    failed = words.failed_starts(summary, replaced=False)
    parts += [Text(escape.printable(text), style="red") for text in failed]
    parts += _doubts(summary)
    parts += [Text(escape.printable(item.text)) for item in summary.recommendations]
    return Group(*parts)


def _doubts(summary: Summary) -> list[RenderableType]:
    """What made cells INVALID or SUSPECT, each remedy once; and what nothing watched.

    That nothing watches for compiles is always so on a CPU: only the report says it.
    """
    parts: list[RenderableType] = []
    remedies: dict[str, None] = {}
    told: Counter[str] = Counter()
    for seen in words.reasons(summary):
        if seen.reason.severity in ("invalid", "suspect"):
            if seen.reason.remedy:
                remedies[f"{seen.reason.code}: {seen.reason.remedy}"] = None
            told[seen.reason.code] += 1
            if told[seen.reason.code] > TOLD_AT_MOST:
                continue
            colour = "red" if seen.reason.severity == "invalid" else "yellow"
            parts.append(
                Text(
                    escape.printable(f"{seen.reason.code} ({seen.places}): {seen.reason.detail}"),
                    style=colour,
                )
            )
        elif seen.reason.severity == "unknown" and seen.reason.code != monitor_off.CODE:
            parts.append(Text(f"{seen.reason.code} ({seen.places}): not looked at. "
                              f"{seen.reason.detail}", style="dim"))  # fmt: skip
    more = [f"{code}: {n - TOLD_AT_MOST} more in the report." for code, n in told.items()
            if n > TOLD_AT_MOST]  # fmt: skip
    parts += [Text(text, style="yellow") for text in more]
    return [*parts, *([Text("What to do:")] if remedies else []),
            *(Text(f"  {text}") for text in remedies)]  # fmt: skip


def _table(summary: Summary) -> RichTable:
    """The headline table in 80 columns: rounds, and all of TPOT where intervals need the room, are
    in the report only."""
    source = tables.headline(summary)
    texts = source.cells()
    kept = _columns(source)
    shown = RichTable(
        title=Text(escape.printable(f"{summary.experiment} on {summary.model}")),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for i in kept:
        column = source.columns[i]
        words_only = column.key in ("claim", "verdict")
        shown.add_column(
            _HEADINGS.get(column.key, column.heading),
            justify="right" if column.show else "left",
            no_wrap=not words_only,
            min_width=_longest_word(texts, i) if words_only else None,
        )
    previous = None
    for raw, row in zip(source.rows, texts, strict=True):
        if previous is not None and raw[0] != previous:
            shown.add_section()
        previous = raw[0]
        word = row[-1].split(" ")[0]
        *values, verdict = (row[i] for i in kept)
        shown.add_row(
            *(Text(x.replace(" to ", "–")) for x in values),
            Text(verdict, style=_COLOURS.get(word, "")),
        )
    return shown


def _longest_word(texts: list[list[str]], column: int) -> int:
    return max((len(word) for row in texts for word in row[column].split()), default=0)


def _columns(source: Table) -> list[int]:
    """Positions of the columns that say something and have room."""
    texts = source.cells()
    silent = {
        column.key
        for i, column in enumerate(source.columns)
        if {row[i] for row in texts} <= {numbers.MISSING}
    }
    claims = {row[i] for row in texts for i, c in enumerate(source.columns) if c.key == "claim"}
    if claims <= {"baseline", "INDICATIVE", numbers.MISSING}:
        silent.add("claim")  # the line above the table says it of all
    left_out = (
        silent | {"rounds"} | (set() if "interval" in silent else {"tpot_ms", "tpot_speedup"})
    )
    return [i for i, column in enumerate(source.columns) if column.key not in left_out]
