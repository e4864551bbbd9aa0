"""Who wants to know what a run is doing just now (live metrics)."""

from __future__ import annotations

import contextlib
from typing import Protocol


class Observer(Protocol):
    """Told by the orchestration as it goes."""

    def start_begins(self, run_id: str, variant: str, start: int) -> None:
        """A server start begins."""

    def cell(self, load: str, repeat: int) -> contextlib.AbstractContextManager[None]:
        """Around a cell (or warm-up batch) of the start."""


class Nobody:
    """Does nothing."""

    def start_begins(self, run_id: str, variant: str, start: int) -> None:
        """See ``Observer``."""

    def cell(self, load: str, repeat: int) -> contextlib.AbstractContextManager[None]:
        """See ``Observer``."""
        return contextlib.nullcontext()


NOBODY = Nobody()
