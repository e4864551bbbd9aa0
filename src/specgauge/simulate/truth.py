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
from typing import Any, TypeVar

from pydantic import Field, ValidationError, field_validator

from specgauge.errors import UsageError
from specgauge.simulate.base import TruthPart
from specgauge.simulate.explain import explain
from specgauge.simulate.planted import (
    Die,
    Foreign,
    Freeze,
    Planted,
    Preemption,
    RequestFault,
    method_of,
)
from specgauge.simulate.surroundings import Loading, LogStyle, Noise, Stopping
from specgauge.simulate.variant import Affine, Variant, check_table

P = TypeVar("P", bound=Planted)


class Truth(TruthPart):
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
        return check_table(value)

    @field_validator("eos")
    @classmethod
    def _range(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and not 1 <= value[0] <= value[1]:
            raise ValueError("needs [first, last] with 1 <= first <= last")
        return value

    def variant(self, section: str) -> Variant:
        """A section, else its method's, else the defaults."""
        found = self.variants.get(section) or self.variants.get(method_of(section))
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
