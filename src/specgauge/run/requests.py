"""Prompts → the planned requests of a cell."""

from __future__ import annotations

from typing import Any

from specgauge.config.experiment import Experiment, Sampling
from specgauge.config.load import Load
from specgauge.config.prompts import Prompt
from specgauge.load.arrivals import poisson
from specgauge.load.plan import CellPlan, PlannedRequest

Tokenized = tuple[Prompt, tuple[int, ...]]
"""A prompt and its token ids."""


def cell_plan(
    experiment: Experiment, load: Load, prompts: list[Tokenized], url: str, model: str
) -> CellPlan:
    """The requests of a measured cell: the first ``load.requests`` prompts, in order."""
    seed = experiment.sampling.seed
    schedule: list[float] | list[None] = [None] * load.requests
    if load.rate is not None:
        schedule = poisson(load.rate, load.requests, seed or 0)
    planned = _planned(prompts[: load.requests], schedule, experiment.output_tokens, seed)
    return _plan(experiment, load, planned, url, model)


def warmup_plan(
    experiment: Experiment, prompts: list[Tokenized], tokens: int, url: str, model: str
) -> CellPlan:
    """All ``prompts`` at once, ``tokens`` output tokens each, sampled as the measured ones."""
    load = Load(concurrency=len(prompts), requests=len(prompts))
    planned = _planned(prompts, [None] * len(prompts), tokens, experiment.sampling.seed)
    return _plan(experiment, load, planned, url, model)


def prefill_plan(
    experiment: Experiment, prompts: list[Tokenized], url: str, model: str
) -> CellPlan:
    """``prompts`` one after the other, one output token each: only to be in the prefix cache."""
    load = Load(concurrency=1, requests=len(prompts))
    planned = _planned(prompts, [None] * len(prompts), 1, experiment.sampling.seed)
    return _plan(experiment, load, planned, url, model)


def _planned(
    prompts: list[Tokenized],
    schedule: list[float] | list[None],
    tokens: int,
    seed: int | None,
) -> tuple[PlannedRequest, ...]:
    return tuple(
        PlannedRequest(
            index=index,
            prompt_id=prompt.id,
            category=prompt.category,
            token_ids=ids,
            max_tokens=tokens,
            seed=None if seed is None else seed + index,
            scheduled_s=at,
        )
        for index, ((prompt, ids), at) in enumerate(zip(prompts, schedule, strict=True))
    )


def _plan(
    experiment: Experiment,
    load: Load,
    planned: tuple[PlannedRequest, ...],
    url: str,
    model: str,
) -> CellPlan:
    return CellPlan(
        url=url,
        model=model,
        concurrency=load.concurrency,
        rate=load.rate,
        workers=load.workers,
        requests=planned,
        ignore_eos=experiment.ignore_eos,
        temperature=experiment.sampling.temperature,
        extra_body=_extra(experiment.sampling),
        request_timeout_s=experiment.request_timeout_s,
    )


def _extra(sampling: Sampling) -> dict[str, Any]:
    given = {"top_p": sampling.top_p, "top_k": sampling.top_k}
    return {name: value for name, value in given.items() if value is not None}
