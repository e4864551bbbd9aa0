"""Plain names: those that become folders, labels and words of a command line."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from specgauge.errors import UsageError

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_TAKEN = frozenset({"latest", "analysis"})
"""Folders of ours that lie beside an experiment's or a variant's."""


def name_fault(name: str) -> str | None:
    """What keeps ``name`` from being a plain name, in words; None if it is one."""
    if name in _TAKEN:
        return f"{name!r} is a name that specgauge needs itself"
    if _PLAIN.fullmatch(name) is None:
        return (
            f"{name!r} is not a plain name: letters, digits, '.', '_' and '-', "
            "up to 100, the first a letter, a digit or '_'"
        )
    return None


def require_plain(name: str, what: str) -> str:
    """``name`` if it is a plain name.  Raises UsageError, saying ``what`` it is for."""
    if (fault := name_fault(name)) is not None:
        raise UsageError(f"{what}: {fault}")
    return name


def _validate(name: str) -> str:
    if (fault := name_fault(name)) is not None:
        raise ValueError(fault)
    return name


PlainName = Annotated[str, AfterValidator(_validate)]
"""The type of every ``name:``."""
