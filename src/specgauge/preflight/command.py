"""``specgauge preflight``: makes the checks and shows each as it is made."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from specgauge.interrupts import terminate_as_interrupt, uninterrupted
from specgauge.preflight.context import Context
from specgauge.preflight.engine import exit_code, run
from specgauge.preflight.registry import CHECKS
from specgauge.preflight.result import Outcome
from specgauge.serve.redact import STRUCK, secret_values

SCHEMA = "specgauge.preflight/1"
_MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skipped": ("·", "")}


def preflight(context: Context, console: Console, *, as_json: bool) -> int:
    """Make all checks, cheapest first.

    Args:
        context: what to check.
        console: where the lines go.
        as_json: one JSON object on the console instead.

    Returns 0 if nothing failed, 2 if what was typed is at fault, else 5.
    """
    outcomes: list[Outcome] = []
    try:
        with terminate_as_interrupt():  # whatever was started is stopped
            for made in run(CHECKS, context):
                outcome = _without_secrets(made, context)
                outcomes.append(outcome)
                context.clear()
                if not as_json:
                    show(outcome, console)
    finally:
        context.clear()
        with uninterrupted():
            left = context.close()
        if left:
            words = f"containers of this preflight may be left: docker rm --force {' '.join(left)}"
            print(f"specgauge: {words}", file=sys.stderr)
    code = exit_code(outcomes)
    if as_json:
        console.out(json.dumps(document(outcomes, code)), highlight=False)
    else:
        console.print(Text(_summary(outcomes)))
    return code


def show(outcome: Outcome, console: Console) -> None:
    """One check: mark, name, time, what was seen; the remedy below."""
    mark, style = _MARKS[outcome.result.status]
    time = f"{outcome.seconds:6.1f} s" if outcome.blocked_by is None else "        "
    line = f"{mark} {outcome.name:<10}{time}  {outcome.result.seen}"
    console.print(Text(line, style), soft_wrap=True)
    if outcome.result.remedy:
        console.print(Text(f"{'':22}→ {outcome.result.remedy}", style), soft_wrap=True)


def document(outcomes: list[Outcome], code: int) -> dict[str, Any]:
    """For programs."""
    return {
        "schema": SCHEMA,
        "ok": code == 0,
        "exit_code": code,
        "checks": [
            {
                "name": outcome.name,
                "status": outcome.result.status,
                "seen": outcome.result.seen,
                "remedy": outcome.result.remedy,
                "seconds": round(outcome.seconds, 3),
                "blocked_by": outcome.blocked_by,
            }
            for outcome in outcomes
        ],
    }


def _summary(outcomes: list[Outcome]) -> str:
    failed = [o.name for o in outcomes if o.result.status == "fail"]
    warned = [o.name for o in outcomes if o.result.status == "warn"]
    blocked = [o.name for o in outcomes if o.blocked_by is not None]
    spent = f"{sum(o.seconds for o in outcomes):.0f} s"
    if failed:
        unseen = f"; therefore not checked: {', '.join(blocked)}" if blocked else ""
        return f"not fit ({spent}): {', '.join(failed)}{unseen}"
    return f"fit ({spent})" + (f"; see {', '.join(warned)}" if warned else "")


def _without_secrets(outcome: Outcome, context: Context) -> Outcome:
    """Messages of libraries and servers may quote what they were given."""
    secrets = [s.decode() for s in secret_values(context.server_env(), [])]

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, STRUCK)
        return text

    result = outcome.result
    remedy = None if result.remedy is None else clean(result.remedy)
    changed = type(result)(result.status, clean(result.seen), remedy)
    return Outcome(outcome.name, changed, outcome.seconds, outcome.blocked_by, outcome.exit_code)
