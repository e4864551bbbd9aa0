"""The headline in the terminal: the table, what it is worth, what to deploy."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from specgauge.analyze.document import Summary
from specgauge.report import tables, words

_COLOURS = {"VALID": "green", "SUSPECT": "yellow", "INVALID": "red"}


def headline(summary: Summary) -> RenderableType:
    """What a person sees when a run ends."""
    parts: list[RenderableType] = []
    if standing := words.standing(summary):
        parts.append(Text(standing, style="bold yellow"))
    parts += [_table(summary), Text(words.status(summary))]
    for seen in words.reasons(summary):
        if seen.reason.severity in ("invalid", "suspect"):
            colour = "red" if seen.reason.severity == "invalid" else "yellow"
            where = ", ".join(seen.where)
            parts.append(Text(f"{seen.reason.code} ({where}): {seen.reason.detail}", style=colour))
            if seen.reason.remedy:
                parts.append(Text(f"  {seen.reason.remedy}"))
    parts += [Text(item.text) for item in summary.recommendations]
    return Group(*parts)


def _table(summary: Summary) -> RichTable:
    source = tables.headline(summary)
    shown = RichTable(title=f"{summary.experiment} on {summary.model}", title_justify="left")
    for column in source.columns:
        shown.add_column(column.heading, justify="right" if column.show else "left")
    previous = None
    for raw, row in zip(source.rows, source.cells(), strict=True):
        if previous is not None and raw[0] != previous:
            shown.add_section()
        previous = raw[0]
        word = row[-1].split(" ")[0]
        shown.add_row(*(Text(x) for x in row[:-1]), Text(row[-1], style=_COLOURS.get(word, "")))
    return shown
