"""A table of raw values: as Markdown for people, as CSV for programs.

A CSV holds full numbers and empty fields; Markdown holds rounded ones and dashes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specgauge.report import escape, numbers

Value = float | int | str | None


@dataclass(frozen=True)
class Column:
    """A column: its CSV name, its heading, and how a value looks."""

    key: str
    heading: str
    show: Callable[[float | None], str] | None = None
    """None: the value is text."""


@dataclass(frozen=True)
class Table:
    """Rows of raw values."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]

    def cells(self) -> list[list[str]]:
        """Every value as shown."""
        return [
            [_shown(column, value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def markdown(self) -> str:
        """As a Markdown table; numbers to the right."""
        head = " | ".join(c.heading for c in self.columns)
        rule = " | ".join("---:" if c.show else "---" for c in self.columns)
        body = [" | ".join(escape.inline(text) for text in row) for row in self.cells()]
        return "\n".join(f"| {line} |" for line in (head, rule, *body))

    def csv(self) -> str:
        """As CSV with a header of keys."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([c.key for c in self.columns])
        writer.writerows([["" if v is None else v for v in row] for row in self.rows])
        return out.getvalue()


def _shown(column: Column, value: Value) -> str:
    if column.show is None or isinstance(value, str):
        return numbers.MISSING if value is None else str(value)
    return column.show(value)
