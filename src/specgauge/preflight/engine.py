"""Runs checks in their order and leaves out those that a failed one makes pointless."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from specgauge.errors import ExitCode, SpecgaugeError
from specgauge.preflight.result import C, Check, Outcome, Result


def run(
    checks: Sequence[Check[C]], context: C, clock: Callable[[], float] = time.monotonic
) -> Iterator[Outcome]:
    """The outcome of each check, one by one as they are made.

    A check is not made if one that it needs has failed or was not made for such a reason; one
    that does not apply (skipped) holds up nobody.  An error of ours inside a check is its failure.
    """
    stuck: dict[str, str] = {}
    for check in checks:
        wanted = stuck if check.needs_all else [name for name in check.needs if name in stuck]
        if (because := next(iter(wanted), None)) is not None:
            stuck[check.name] = stuck[because]
            text = f"not checked: {stuck[because]} failed"
            yield Outcome(check.name, Result("skipped", text), blocked_by=stuck[because])
            continue
        began = clock()
        outcome = _made(check, context)
        if outcome.result.status == "fail":
            stuck[check.name] = check.name
        yield Outcome(check.name, outcome.result, clock() - began, exit_code=int(outcome.exit_code))


def _made(check: Check[C], context: C) -> Outcome:
    try:
        result = check.run(context)
    except SpecgaugeError as error:
        return Outcome(check.name, Result("fail", str(error)), exit_code=int(error.exit_code))
    code = ExitCode.ENVIRONMENT if result.status == "fail" else ExitCode.MEASURED
    return Outcome(check.name, result, exit_code=int(code))


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if nothing failed; 2 if what was typed is at fault; else 5."""
    codes = {outcome.exit_code for outcome in outcomes} - {int(ExitCode.MEASURED)}
    return min(codes, default=int(ExitCode.MEASURED))
