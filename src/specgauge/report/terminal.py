"""The headline in the terminal: the table, what it is worth, what to deploy."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from specgauge.analyze.document import Summary
from specgauge.report import numbers, tables, words

_COLOURS = {"VALID": "green", "SUSPECT": "yellow", "INVALID": "red"}


def headline(summary: Summary) -> RenderableType:
    """What a person sees when a run ends."""
    parts: list[RenderableType] = []
    if standing := words.standing(summary):
        parts.append(Text(standing, style="bold yellow"))
    parts += [_table(summary), Text(words.status(summary))]
    parts += _doubts(summary)
    parts += [Text(item.text) for item in summary.recommendations]
    return Group(*parts)


def _doubts(summary: Summary) -> list[RenderableType]:
    """What made cells INVALID or SUSPECT, each remedy once."""
    parts: list[RenderableType] = []
    remedies: dict[str, None] = {}
    for seen in words.reasons(summary):
        if seen.reason.severity in ("invalid", "suspect"):
            colour = "red" if seen.reason.severity == "invalid" else "yellow"
            where = ", ".join(seen.where)
            parts.append(Text(f"{seen.reason.code} ({where}): {seen.reason.detail}", style=colour))
            if seen.reason.remedy:
                remedies[f"{seen.reason.code}: {seen.reason.remedy}"] = None
    return [*parts, *([Text("What to do:")] if remedies else []),
            *(Text(f"  {text}") for text in remedies)]  # fmt: skip


def _table(summary: Summary) -> RichTable:
    source = tables.headline(summary)
    shown = RichTable(title=f"{summary.experiment} on {summary.model}", title_justify="left")
    texts = source.cells()
    kept = [i for i, _ in enumerate(source.columns) if {t[i] for t in texts} != {numbers.MISSING}]
    for i in kept:
        column = source.columns[i]
        shown.add_column(column.heading, justify="right" if column.show else "left")
    previous = None
    for raw, row in zip(source.rows, texts, strict=True):
        if previous is not None and raw[0] != previous:
            shown.add_section()
        previous = raw[0]
        word = row[-1].split(" ")[0]
        *values, verdict = (row[i] for i in kept)
        shown.add_row(*(Text(x) for x in values), Text(verdict, style=_COLOURS.get(word, "")))
    return shown
