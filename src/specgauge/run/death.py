"""Why a server died, for the message of its start: what its log says comes first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specgauge.config.resolve import Resolved
from specgauge.serve.diagnosis import Kind, diagnose, flags_in, where_set
from specgauge.serve.logtail import last_lines


@dataclass(frozen=True)
class Death:
    """A server's end: the message, and its kind where the log tells it."""

    message: str
    kind: Kind | None


def explained(how: str, log: Path, resolved: Resolved) -> Death:
    """``how`` it ended (with its last lines), below what ``log`` says and where to mend it."""
    found = diagnose(last_lines(log))
    if found is None:
        return Death(how, None)
    places = [where_set(flag, resolved) for flag in flags_in(found)]
    where = f" ({'; '.join(places)}.)" if places else ""
    return Death(f"{found.words()}{where}\n  {how}", found.kind)
