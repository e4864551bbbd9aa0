"""Which planted freezes open a step, and what they write into the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specgauge.simulate.planted import BatchClass, Freeze

_UNIT = 16  # Triton specialises integer arguments on divisibility by 16, and on 1


def batch_class(batch: int) -> BatchClass:
    """The class for which a compiled kernel holds."""
    if batch == 1:
        return "one"
    return "multiple_of_16" if batch % _UNIT == 0 else "other"


@dataclass(frozen=True)
class StepView:
    """What the conditions of a freeze look at, just before a step.

    ``arrivals``, ``fresh`` and ``wanted`` go together: the arrival number of each request of the
    step, whether it has no token yet, and its ``max_tokens``.
    """

    since_ready_s: float
    generated: int
    batch: int
    previous_batch: int
    arrivals: Sequence[int]
    fresh: Sequence[bool]
    wanted: Sequence[int]


class FreezePlan:
    """The freezes of one process: remembers which have happened."""

    def __init__(self, freezes: Sequence[Freeze]) -> None:
        self._freezes = freezes
        self._last: dict[int, float] = {}
        self._held: dict[int, bool] = {}

    def due(self, view: StepView) -> list[Freeze]:
        """Freezes that open this step, in the document's order."""
        found: list[Freeze] = []
        for index, freeze in enumerate(self._freezes):
            holds = matches(freeze, view)
            held = self._held.get(index, False)
            self._held[index] = holds
            if holds and self._may_fire(index, freeze, held, view.since_ready_s):
                self._last[index] = view.since_ready_s
                found.append(freeze)
        return found

    def _may_fire(self, index: int, freeze: Freeze, held: bool, now: float) -> bool:
        last = self._last.get(index)
        if last is None:
            return True
        if freeze.once:
            return False
        if freeze.every_s is not None:
            return now - last >= freeze.every_s
        return not held


def matches(freeze: Freeze, view: StepView) -> bool:
    """Whether every condition given holds."""
    if freeze.at_s is not None and view.since_ready_s < freeze.at_s:
        return False
    if freeze.after_tokens is not None and view.generated < freeze.after_tokens:
        return False
    if freeze.when_batch is not None and view.batch != freeze.when_batch:
        return False
    if freeze.batch_class is not None and batch_class(view.batch) != freeze.batch_class:
        return False
    if freeze.falling and view.batch >= view.previous_batch:
        return False
    if freeze.request_max_tokens is not None and freeze.request_max_tokens not in view.wanted:
        return False
    fresh = list(view.fresh)
    if freeze.at_request is not None:
        if freeze.at_request not in view.arrivals:
            return False
        fresh = [view.fresh[list(view.arrivals).index(freeze.at_request)]]
    if freeze.phase == "before_first_token":
        return all(fresh)
    if freeze.phase == "arrival":
        return any(fresh)
    if freeze.phase == "after_first_token":
        return not any(fresh)
    return True


def jit_messages(freeze: Freeze) -> list[str]:
    """The log messages of a freeze, in the JIT monitor's words; none: it leaves no line."""
    kernels = [freeze.log] if isinstance(freeze.log, str) else freeze.log or []
    return [
        kernel
        if " " in kernel
        else f"{freeze.backend} JIT compilation during inference: {kernel}. This causes a latency "
        "spike; consider extending warmup to cover this shape/config."
        for kernel in kernels
    ]
