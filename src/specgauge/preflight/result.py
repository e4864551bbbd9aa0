"""What a check is and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from specgauge.errors import ExitCode

Status = Literal["ok", "warn", "fail", "skipped"]
C = TypeVar("C")


@dataclass(frozen=True)
class Result:
    """What was seen, and the way out where that is needed."""

    status: Status
    seen: str
    remedy: str | None = None


def ok(seen: str) -> Result:
    """All is well."""
    return Result("ok", seen)


def warn(seen: str, remedy: str) -> Result:
    """A run is possible; something should be known or done first."""
    return Result("warn", seen, remedy)


def fail(seen: str, remedy: str) -> Result:
    """A run would fail, or would not be worth anything."""
    return Result("fail", seen, remedy)


def skipped(reason: str) -> Result:
    """Does not apply here, or was not wanted."""
    return Result("skipped", reason)


@dataclass(frozen=True)
class Check(Generic[C]):
    """One thing to look at; ``C`` is the context that it looks at it in."""

    name: str
    title: str
    """What is looked at, for the list in docs/preflight.md."""
    run: Callable[[C], Result]
    needs: tuple[str, ...] = ()
    """Without these a look is pointless."""
    needs_all: bool = False
    """Costly: only when nothing before has failed."""


@dataclass(frozen=True)
class Outcome:
    """A check's result with the time it took."""

    name: str
    result: Result
    seconds: float = 0.0
    blocked_by: str | None = None
    """The failed check for whose sake it was not made."""
    exit_code: int = ExitCode.MEASURED
    """What this one would end the command with."""
