"""Which checks are made, and what the command ends with."""

from __future__ import annotations

from itertools import count

import pytest

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.preflight.engine import exit_code, run
from specgauge.preflight.result import Check, Result, fail, ok, skipped, warn

Calls = list[str]


def check(name: str, result: Result | Exception, **more: object) -> Check[Calls]:
    def look(calls: Calls) -> Result:
        calls.append(name)
        if isinstance(result, Exception):
            raise result
        return result

    return Check(name, name, look, **more)  # type: ignore[arg-type]


BAD = fail("broken", "mend it")


def test_only_what_needs_the_failed_one_is_left_out() -> None:
    calls: Calls = []
    checks = [
        check("a", BAD),
        check("b", ok(""), needs=("a",)),
        check("c", ok(""), needs=("b",)),
        check("d", ok("")),
    ]
    found = {outcome.name: outcome for outcome in run(checks, calls)}
    assert calls == ["a", "d"]
    assert found["c"].blocked_by == "a"  # the root, not b
    assert "a failed" in found["b"].result.seen
    assert found["d"].result.status == "ok"


@pytest.mark.parametrize("result", [skipped("not here"), warn("hm", "look"), ok("")])
def test_skipped_and_warned_hold_up_nobody(result: Result) -> None:
    calls: Calls = []
    checks = [
        check("a", result),
        check("b", ok(""), needs=("a",)),
        check("c", ok(""), needs_all=True),
    ]
    assert exit_code(list(run(checks, calls))) == 0
    assert calls == ["a", "b", "c"]


def test_costly_one_wants_all_before_it() -> None:
    calls: Calls = []
    checks = [check("a", ok("")), check("b", BAD), check("smoke", ok(""), needs_all=True)]
    found = list(run(checks, calls))
    assert calls == ["a", "b"]
    assert found[-1].blocked_by == "b"


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([ok("")], 0),
        ([BAD], 5),
        ([EnvironmentFault("no disk")], 5),
        ([UsageError("no such GPU")], 2),
        ([EnvironmentFault("no disk"), UsageError("no such GPU")], 2),
    ],
)
def test_exit_code(results: list[Result | Exception], code: int) -> None:
    checks = [check(f"c{n}", result) for n, result in enumerate(results)]
    found = list(run(checks, []))
    assert exit_code(found) == code
    for result, outcome in zip(results, found, strict=True):
        if isinstance(result, Exception):
            assert outcome.result.seen == str(result)


def test_time_is_that_of_the_check() -> None:
    ticks = count()

    def clock() -> float:
        return float(next(ticks) * 3)

    (found,) = run([check("a", ok(""))], [], clock)
    assert found.seconds == 3.0


def test_outcomes_come_as_they_are_made() -> None:
    calls: Calls = []
    outcomes = run([check("a", ok("")), check("b", ok(""))], calls)
    next(outcomes)
    assert calls == ["a"]
