"""Text from records in Markdown and on terminals: shown as it is, never obeyed.

Errors, names and kernels come from servers, files and other people.  In a report they must not
become links, images that a browser fetches, headings or table cells; on a terminal not its control
sequences.
"""

from __future__ import annotations

import re
import unicodedata

_ACTIVE = re.compile(r"[\\`*\[\]<|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""What means something inside a line; an underscore within a word does not."""
_OPENING = re.compile(r"^(\s*)([#>+=-]|\d+(?=[.)]))")
"""What means something at a line's begin."""
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
"""Characters that turn the direction of what follows, or break lines without saying so."""


def printable(text: str) -> str:
    """``text`` in one line, without control characters."""
    return "".join(" " if c in _TURNING or unicodedata.category(c) == "Cc" else c for c in text)


def inline(text: str) -> str:
    """``text`` for the middle of a line or a table's cell."""
    return _ACTIVE.sub(lambda found: "\\" + found[0], printable(text))


def line(text: str) -> str:
    """``text`` for a line of its own or a list's item."""
    escaped = inline(text)
    return _OPENING.sub(
        lambda found: found[1] + (found[2] + "\\" if found[2].isdigit() else "\\" + found[2]),
        escaped,
    )


def code(text: str) -> str:
    """``text`` as a code span, whatever backticks it holds."""
    shown = printable(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"
