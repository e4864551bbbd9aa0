"""An experiment: what is compared, under which loads, and how the measurement is protected."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from specgauge.config.base import StrictModel
from specgauge.config.load import Load
from specgauge.config.names import PlainName
from specgauge.config.variant import ServerArgs


class Sampling(StrictModel):
    """How tokens are chosen.  ``seed`` + a request's index is that request's seed."""

    temperature: float | None = Field(default=0.0, ge=0)
    """null: not sent, so that the server applies the model's own ``generation_config``."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    seed: int | None = Field(default=0, ge=0, lt=2**62)
    """null: none is sent; arrivals and shuffled orders then use 0."""


class Warmup(StrictModel):
    """Requests before the first measured cell of a start, with prompts that are not measured.

    Triton builds a kernel anew for batch size 1, for multiples of 16 and for all others, so a
    warm-up covers one of each class, at the measured temperature.
    """

    workload: str = "builtin_warmup"
    batches: list[int] = [1, 16, 5]
    """Requests sent at once, one batch after the other."""
    output_tokens: int = Field(default=24, gt=0)

    @field_validator("batches")
    @classmethod
    def _positive(cls, value: list[int]) -> list[int]:
        if not value or min(value) < 1:
            raise ValueError("needs at least one batch size, each 1 or more")
        return value


class Server(StrictModel):
    """How the server is started and reached."""

    command: list[str] = Field(
        default=[".venv-vllm/bin/python", "-m", "vllm.entrypoints.cli.main", "serve"], min_length=1
    )
    """Program and first arguments; a relative program counts from the project."""
    vllm_version: str | None = None
    """The version this experiment is about; another one ends the run at its first start."""
    host: str = "127.0.0.1"
    port: int = Field(default=8111, ge=1, le=65535)
    ready_timeout_s: float = Field(default=3600, gt=0)
    stop_grace_s: float = Field(default=30, gt=0)
    args: ServerArgs = {}
    env: dict[str, str] = {}


class Slo(StrictModel):
    """Limits a request must meet to count for goodput (open loads)."""

    ttft_ms: float | None = Field(default=None, gt=0)
    tpot_ms: float | None = Field(default=None, gt=0)
    e2e_ms: float | None = Field(default=None, gt=0)


class Experiment(StrictModel):
    """One experiment file."""

    name: PlainName
    description: str = ""
    model: str
    variants: list[str] = Field(min_length=1)
    baseline: str = "vanilla"
    loads: list[Load] = Field(min_length=1)
    """Run in this order on the same server."""
    workload: str = "builtin"
    chat_template: bool = True
    output_tokens: int = Field(default=128, gt=0)
    ignore_eos: bool = False
    sampling: Sampling = Sampling()
    rounds: int = Field(default=1, gt=0)
    """Starts of each variant; the unit of replication."""
    repeats: int = Field(default=1, gt=0)
    """Times each load is measured on one server."""
    order: Literal["listed", "rotated", "shuffled"] = "listed"
    """Order of the variants inside a round; the baseline is always first.  ``rotated`` moves the
    others on by one each round, ``shuffled`` draws them by the seed."""
    baseline_last: bool = False
    """Start the baseline once more at the very end, to see drift."""
    warmup: Warmup | None = None
    prefix_cache: Literal["keep", "reset"] = "keep"
    """``reset`` empties the prefix cache before each cell (vLLM's dev mode, loopback only)."""
    confirm: bool = True
    """Repeat a cell that stood still, on the same server after its last cell."""
    compile_cache: Literal["shared", "per-variant", "fresh"] = "shared"
    server: Server = Server()
    on_graph_failure: Literal["stop", "eager_for_all"] = "stop"
    """A server that dies while it captures CUDA graphs: ``eager_for_all`` begins a new run with
    ``enforce-eager`` for *all* variants; ``stop`` says so and goes on without that variant."""
    slo: Slo | None = None
    expected_s: dict[str, float] = {}
    """Typical seconds of each step (``launch``, ``warmup``, ``c1``, …), only to foretell the time
    left before this machine has shown its own."""
    request_timeout_s: float = Field(default=600, gt=0)
    settle_s: float = Field(default=0.6, ge=0.4)
    """Quiet time before and after a cell, so that a scrape lies on either side."""

    @model_validator(mode="after")
    def _consistent(self) -> Experiment:
        for what, names in (("variants", self.variants), ("loads", [x.name for x in self.loads])):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"'{what}' holds {', '.join(twice)} twice")
        return self
