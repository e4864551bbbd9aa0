"""One request inside the engine, and the tokens that it will get."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specgauge.simulate.prefix_cache import Chain
from specgauge.simulate.tokens import EOS, hash_bytes, hash_prompt, output_token, uniform
from specgauge.simulate.truth import Truth

_REPEATED = 8  # tokens that degenerate output repeats
FinishReason = Literal["stop", "length", "abort", "error"]


@dataclass(eq=False)
class Request:
    """State of a request; times are monotonic seconds, null until they happen.

    ``arrival`` is its number in order of arrival over HTTP, from 1; 0 for foreign traffic.
    """

    arrival: int
    prompt: tuple[int, ...]
    max_tokens: int
    ignore_eos: bool
    rng: random.Random
    output: Output
    t_arrival: float
    chain: Chain = ()
    computed: int = 0
    emitted: int = 0
    cached: int = 0
    preemptions: int = 0
    t_scheduled: float | None = None
    t_first: float | None = None
    t_last: float | None = None
    stalled: bool = False
    finished: FinishReason | None = None
    coverage_factor: float = 1.0
    """This prompt's draft coverage over the variant's."""

    @property
    def to_prefill(self) -> int:
        """Tokens whose keys and values must exist before the next token: prompt and output."""
        return len(self.prompt) + max(self.emitted - 1, 0)

    @property
    def decoding(self) -> bool:
        """Whether every earlier token is computed, so that a step yields tokens."""
        return self.computed >= self.to_prefill and self.emitted > 0


@dataclass
class Output:
    """The tokens that a prompt leads to: a pure function of position."""

    key: int
    vocabulary: int
    end: int | None
    """Position of the model's own end token; null: it never ends by itself."""
    repeats: bool
    other_key: int | None = None
    diverges_at: int = 0

    def at(self, position: int) -> int:
        """The token at an output position, 0-based."""
        if self.end is not None and position == self.end:
            return EOS
        if self.end is not None and position > self.end and self.repeats:
            position = self.end + 1 + (position - self.end - 1) % _REPEATED
        diverged = self.other_key is not None and position >= self.diverges_at
        key = self.other_key if diverged and self.other_key is not None else self.key
        return output_token(key, position, self.vocabulary)


def new_request(
    truth: Truth,
    section: str,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    arrival: int,
    now: float,
    ignore_eos: bool = False,
    temperature: float = 0.0,
    seed: int = 0,
) -> Request:
    """A request as it arrives.  Only at a temperature above 0 does ``seed`` matter."""
    salt = truth.seed if temperature == 0 else truth.seed ^ hash_bytes(f"{seed}".encode()) >> 1
    key = hash_prompt(prompt, salt)
    return Request(
        arrival=arrival,
        prompt=tuple(prompt),
        max_tokens=max_tokens,
        ignore_eos=ignore_eos,
        rng=random.Random(f"{section}:{key}"),
        output=_output(truth, section, key),
        t_arrival=now,
        coverage_factor=1 + truth.variant(section).coverage_spread * (2 * uniform(key ^ 0xC0F) - 1),
    )


def _output(truth: Truth, section: str, key: int) -> Output:
    end: int | None = None
    if truth.eos is not None:
        first, last = truth.eos
        end = first - 1 + int(uniform(key ^ 0xE05) * (last - first + 1))
    output = Output(key, truth.vocabulary, end, truth.repeat_after_eos)
    divergence = truth.variant(section).divergence
    if divergence is not None and uniform(key ^ 0xD17) < divergence.fraction:
        output.diverges_at = divergence.from_position
        if not divergence.by_batch:
            output.other_key = hash_bytes(f"{key}:{section}".encode())
    return output


def diverge_by_batch(truth: Truth, section: str, request: Request, batch: int) -> None:
    """Settle a divergence that depends on the batch size of the request's first step."""
    divergence = truth.variant(section).divergence
    if divergence is None or not divergence.by_batch or request.emitted or batch == 1:
        return
    if uniform(request.output.key ^ 0xD17) < divergence.fraction:
        request.output.other_key = hash_bytes(f"{request.output.key}:batch{batch}".encode())
