"""Events that can be planted: freezes, failing requests, foreign traffic, preemption, death."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from specgauge.simulate.base import TruthPart

BatchClass = Literal["one", "multiple_of_16", "other"]
"""Triton builds a kernel anew for each: batch size 1, multiples of 16, all others."""


class Planted(TruthPart):
    """An event, and which server processes it happens in."""

    variants: list[str] | None = None
    """Sections (``ngram:6``) or methods (``ngram``); null: all."""
    starts: list[int] | None = None
    """Starts of the same section, from 0, counted in the folder ``SPECGAUGE_SIM_STARTS``; null:
    all."""

    def applies(self, section: str, start: int) -> bool:
        """Whether it happens in this process."""
        named = self.variants is None or bool({section, method_of(section)} & set(self.variants))
        return named and (self.starts is None or start in self.starts)


class Freeze(Planted):
    """A span in which the engine emits nothing.  It opens the first step that meets *all* the
    conditions given; the step's own time follows it.  HTTP keeps answering, as in vLLM."""

    length_s: float = Field(gt=0)
    at_s: float | None = None
    """First step that begins this many seconds after the server became ready, or later."""
    at_request: int | None = Field(default=None, ge=1)
    """The n-th request to arrive (1-based) is in the step."""
    after_tokens: int | None = Field(default=None, ge=0)
    """The server has generated at least this many tokens."""
    when_batch: int | None = Field(default=None, ge=1)
    """Exactly this many requests are in the step."""
    batch_class: BatchClass | None = None
    """The step's batch is of this class.  With nothing else given: a compile on first use."""
    falling: bool = False
    """The batch is smaller than the previous step's (the drain)."""
    phase: Literal["any", "before_first_token", "arrival", "after_first_token"] = "any"
    """``before_first_token``: no request of the step has a token yet (with ``at_request``: that
    one has none; those that arrive during the span wait as well).  ``arrival``: at least one has
    none.  ``after_first_token``: all of them have (that one has)."""
    once: bool = True
    """False: again each time its conditions become true after they were not (``at_s``: with
    ``every_s``)."""
    every_s: float | None = Field(default=None, gt=0)
    """With ``once: false``: not sooner than this after its last begin."""
    request_max_tokens: int | None = None
    """A request of the step asks for exactly this many tokens: tells a measured cell from its
    warm-up."""
    log: str | list[str] | None = None
    """Kernels named in JIT monitor lines inside the span; text with a space is written as it
    is."""
    backend: Literal["Triton kernel", "CuTeDSL", "TileLang"] = "Triton kernel"
    log_at: float = Field(default=0.95, ge=0, le=1)
    """Where in the span the line is written."""
    touch_cache: bool = False
    """Leave a new file in ``TRITON_CACHE_DIR`` at the end, as a compile does."""


class RequestFault(Planted):
    """One request that goes wrong, counted by order of arrival over HTTP (1-based)."""

    request: int | None = Field(default=None, ge=1)
    every: int | None = Field(default=None, ge=1)
    kind: Literal["status", "stall", "cut", "error_event", "short", "usage"]
    """``status``: answered with ``status`` and no stream.  ``stall``: emits nothing more, for ever.
    ``cut``: connection broken.  ``error_event``: an error instead of the rest.  ``short``: ends
    early as if complete.  ``usage``: the usage event counts ``usage_error`` tokens too many."""
    after_tokens: int = Field(default=0, ge=0)
    status: int = 500
    usage_error: int = 1

    @model_validator(mode="after")
    def _which(self) -> RequestFault:
        if (self.request is None) == (self.every is None):
            raise ValueError("give 'request' or 'every'")
        return self


class Foreign(Planted):
    """Somebody else's requests: counted by the server, sent by no client of ours."""

    rate: float = Field(gt=0)
    """Requests per second, at equal distances."""
    tokens: int = Field(default=32, ge=1)
    prompt_tokens: int = Field(default=64, ge=1)
    from_s: float = 0.0
    until_s: float | None = None


class Preemption(Planted):
    """The engine throws ``requests`` running requests back into the queue, newest first."""

    at_s: float | None = None
    after_tokens: int | None = None
    requests: int = Field(default=1, ge=1)
    once: bool = True
    every_s: float = Field(default=1.0, gt=0)


class Die(Planted):
    """How and when the server ends by itself; the first condition met counts."""

    while_loading: str | None = None
    """Text (a traceback) written while loading; then it exits."""
    unless_eager: bool = False
    """Not with ``--enforce-eager``: a failure that only captured graphs have."""
    at_s: float | None = None
    after_tokens: int | None = None
    after_requests: int | None = None
    """Finished requests."""
    how: Literal["exit", "signal", "engine_dead"] = "exit"
    """``engine_dead``: as vLLM when its engine fails: error events, 500 for new requests, then a
    shutdown after ``linger_s``."""
    exit_code: int = 1
    signal: int = 9
    linger_s: float = 0.2
    log: str | None = None
    """Written before it dies."""


def method_of(section: str) -> str:
    """The speculative method of a section: ``ngram`` of ``ngram:6``."""
    return section.split(":", maxsplit=1)[0]
