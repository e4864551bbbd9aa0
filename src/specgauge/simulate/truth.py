"""The planted truth: one JSON document that says how the simulated server behaves.

One document serves every variant of an experiment.  A process finds its section of ``variants`` by
its speculative config: ``ngram:6`` (method and number of speculative tokens), else ``ngram``;
without one ``vanilla:v1`` where ``VLLM_USE_V2_MODEL_RUNNER=0``, else ``vanilla``.  Every key has a
default; an unknown key is an error that names it.  ``--truth`` or ``SPECGAUGE_SIM_TRUTH`` gives the
document inline or its path.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from specgauge.config.base import StrictModel
from specgauge.errors import UsageError
from specgauge.simulate.explain import explain

P = TypeVar("P", bound="Planted")

BatchClass = Literal["one", "multiple_of_16", "other"]
"""Triton builds a kernel anew for each: batch size 1, multiples of 16, all others."""


class Affine(StrictModel):
    """Step time in ms: ``base + per_request * batch``."""

    base: float = Field(ge=0)
    per_request: float = Field(default=0.0, ge=0)


class Variant(StrictModel):
    """What is particular to one section; ``step_ms`` null: the document's."""

    step_ms: dict[int, float] | Affine | None = None
    """Milliseconds of a step by batch size: a table (linear between its sizes, constant outside)
    or an affine law."""
    drafted_step_ms: float = Field(default=0.0, ge=0)
    """Added to a step in which at least one request verifies a draft."""
    coverage: float = Field(default=1.0, ge=0, le=1)
    """Probability that a request-step after the first has a draft (read only with a method)."""
    coverage_spread: float = Field(default=0.0, ge=0, le=1)
    """Prompts differ: each has the coverage times a factor of its own, uniform in 1 -/+ this."""
    acceptance: list[float] | None = None
    """P(position j accepted | all before it were), j = 0, 1, …; beyond the list nothing is."""
    accepted: dict[int, float] | None = None
    """Instead: distribution of the number of accepted tokens of a draft."""
    draft_lengths: dict[int, float] | None = None
    """Distribution of the drafts' lengths; null: always ``num_speculative_tokens``."""
    first_call_s: float = Field(default=0.0, ge=0)
    """Added to the first step of the process, before any first token; leaves no log line."""
    divergence: Divergence | None = None

    @field_validator("acceptance")
    @classmethod
    def _probabilities(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and any(not 0 <= p <= 1 for p in value):
            raise ValueError("each entry is a probability, 0 to 1")
        return value

    @field_validator("accepted", "draft_lengths")
    @classmethod
    def _distribution(cls, value: dict[int, float] | None) -> dict[int, float] | None:
        if value is not None and (
            min(value.values(), default=-1.0) < 0 or abs(sum(value.values()) - 1) > 1e-6
        ):
            raise ValueError("the probabilities must be 0 or more and sum to 1")
        return value

    @field_validator("draft_lengths")
    @classmethod
    def _not_empty(cls, value: dict[int, float] | None) -> dict[int, float] | None:
        if value is not None and min(value) < 1:
            raise ValueError("a draft has at least one token: no draft at all is 'coverage'")
        return value

    @field_validator("step_ms")
    @classmethod
    def _sizes(cls, value: Any) -> Any:
        return _check_table(value)

    @model_validator(mode="after")
    def _one_law(self) -> Variant:
        if self.acceptance is not None and self.accepted is not None:
            raise ValueError("give 'acceptance' or 'accepted', not both")
        return self


def _check_table(value: Any) -> Any:
    if isinstance(value, dict) and (not value or min(value) < 1 or min(value.values()) < 0):
        raise ValueError("a table needs batch sizes of 1 or more and times of 0 or more")
    return value


class Divergence(StrictModel):
    """Greedy output that differs from the other variants' in a share of the prompts."""

    fraction: float = Field(ge=0, le=1)
    from_position: int = Field(default=8, ge=0)
    by_batch: bool = False
    """Differ by the batch size at the request's first step instead of by the variant."""


class Planted(StrictModel):
    """An event, and which server processes it happens in."""

    variants: list[str] | None = None
    """Sections (``ngram:6``) or methods (``ngram``); null: all."""
    starts: list[int] | None = None
    """Starts of the same section, from 0, counted in the folder ``SPECGAUGE_SIM_STARTS``; null:
    all."""

    def applies(self, section: str, start: int) -> bool:
        """Whether it happens in this process."""
        named = self.variants is None or bool({section, _method(section)} & set(self.variants))
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


class Loading(StrictModel):
    """From process start to readiness.  The port refuses connections until then."""

    load_s: float = Field(default=0.0, ge=0)
    never_ready: Literal["refused", "503"] | None = None
    reject_flags: list[str] = []
    """Command-line flags that this "version" does not know: usage error, exit 2."""


class Stopping(StrictModel):
    """What happens at SIGTERM."""

    ignore_term: bool = False
    delay_s: float = Field(default=0.0, ge=0)
    exit_code: int = 0
    leave_child: bool = False
    """A child process that ignores TERM and outlives the server (it ends after 10 minutes)."""
    children: int = Field(default=0, ge=0)
    """Child processes that end with TERM, as vLLM's engine core and workers do."""


class Noise(StrictModel):
    """Spread of the step times."""

    step_cv: float = Field(default=0.0, ge=0, lt=1)
    """Standard deviation of a step's time over its mean (normal, cut at 3 sigma)."""
    start_cv: float = Field(default=0.0, ge=0, lt=1)
    """The same for one factor per process: two starts differ."""
    start_seed: int | None = None
    """Fixes those factors; null: another one in every process."""
    start_factors: list[float] | None = None
    """Instead: the factor of each start, in turn (counted in ``SPECGAUGE_SIM_STARTS``)."""
    drift_per_minute: float = 0.0
    """Steps become longer by this share per minute: a machine that throttles."""


class LogStyle(StrictModel):
    """How the log is worded: vLLM's versions and devices differ."""

    device: Literal["GPU", "CPU"] = "GPU"
    jit_monitor: bool = True
    """The line which proves that the JIT monitor watches."""
    interval_s: float | None = Field(default=None, gt=0)
    """Of the throughput lines; null: ``VLLM_LOG_STATS_INTERVAL``, else 10."""
    access: bool = True
    undrafted: Literal["absent", "nan"] = "absent"
    """A window in which nothing was drafted: no SpecDecoding line, or one with ``nan``."""
    wording: Literal["0.9", "0.27", "0.32"] = "0.32"
    """Below 0.32 the KV cache has two lines; 0.9 words the SpecDecoding line differently."""
    routes: bool = True
    """List the routes at start-up."""


class Truth(StrictModel):
    """The whole document."""

    seed: int = 0
    version: str = "0.32.0"
    step_ms: dict[int, float] | Affine = {1: 10.0, 16: 14.0}
    variants: dict[str, Variant] = {}
    prefill_tokens_per_s: float = Field(default=20_000.0, gt=0)
    max_batched_tokens: int = Field(default=8192, ge=1)
    """Tokens of one step: longer prefills are cut into chunks."""
    max_num_seqs: int = Field(default=256, ge=1)
    """Unless ``--max-num-seqs`` is given."""
    max_model_len: int = Field(default=8192, ge=2)
    kv_cache_tokens: int = Field(default=265_200, ge=16)
    """When the running requests need more, the newest is preempted."""
    block_size: int = Field(default=16, ge=1)
    prefix_caching: bool = True
    vocabulary: int = Field(default=32_000, ge=64)
    eos: tuple[int, int] | None = None
    """The model's own end: at a position in this range, by prompt (``ignore_eos`` goes on)."""
    repeat_after_eos: bool = False
    """With ``ignore_eos``: eight tokens over and over after the end (degenerate output)."""
    merge_probability: float = Field(default=0.0, ge=0, le=1)
    """A request-step's tokens leave together with the request's next ones."""
    freezes: list[Freeze] = []
    faults: list[RequestFault] = []
    foreign: Foreign | None = None
    preemptions: list[Preemption] = []
    die: Die | None = None
    loading: Loading = Loading()
    stopping: Stopping = Stopping()
    noise: Noise = Noise()
    log: LogStyle = LogStyle()

    @field_validator("step_ms")
    @classmethod
    def _sizes(cls, value: Any) -> Any:
        return _check_table(value)

    @field_validator("eos")
    @classmethod
    def _range(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1]:
            raise ValueError("needs [first, last] with 1 <= first <= last")
        return value

    def variant(self, section: str) -> Variant:
        """A section, else its method's, else the defaults."""
        found = self.variants.get(section) or self.variants.get(_method(section))
        return found or Variant()

    def for_process(self, section: str, start: int) -> Truth:
        """The document without the events of other sections and starts."""

        def kept(items: Sequence[P]) -> list[P]:
            return [item for item in items if item.applies(section, start)]

        def one(item: P | None) -> P | None:
            return item if item is not None and item.applies(section, start) else None

        return self.model_copy(
            update={
                "freezes": kept(self.freezes),
                "faults": kept(self.faults),
                "preemptions": kept(self.preemptions),
                "foreign": one(self.foreign),
                "die": one(self.die),
            }
        )

    def step_law(self, section: str) -> dict[int, float] | Affine:
        """Step times that hold for a section."""
        own = self.variant(section).step_ms
        return self.step_ms if own is None else own


Variant.model_rebuild()


def _method(section: str) -> str:
    return section.split(":", maxsplit=1)[0]


def parse_truth(source: str) -> Truth:
    """Read a document given inline (it begins with ``{``) or as a path.

    Raises:
        UsageError: not readable, not JSON, or not a truth; one line per fault, each with its key.
    """
    where = "truth"
    text = source
    if not source.lstrip().startswith("{"):
        where = source
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{source}: the planted truth cannot be read: {error}") from error
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}:{error.lineno}: not valid JSON: {error.msg}") from error
    try:
        return Truth.model_validate(value)
    except ValidationError as error:
        raise UsageError("\n".join(explain(error, where, Truth))) from error
