"""Does it fit?  Weights, drafter and KV cache from configuration files, before any is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from specgauge.config.resolve import place
from specgauge.gpu.device import NvmlFault
from specgauge.preflight.context import Context, gib
from specgauge.preflight.model_files import ModelFiles
from specgauge.preflight.need import CPU_OVERHEAD, OVERHEAD, UTILIZATION, Demand, Fit, Supply, fit
from specgauge.preflight.result import Result, fail, ok, skipped, warn
from specgauge.preflight.sizes import (
    eagle3_bytes,
    is_eagle3,
    kv_bytes_per_token,
    longest,
    weight_bytes,
)

_CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"
_CPU_CACHE_GIB = 4.0
"""What vLLM's CPU build takes where the variable is not set (older releases)."""


@dataclass(frozen=True)
class Estimate:
    """A variant's demand, and where its weights' figure comes from."""

    variant: str
    demand: Demand
    source: str


def memory(context: Context) -> Result:
    """The variant that wants most, against what is free."""
    estimates = [made for v in context.variants if (made := estimate(context, v)) is not None]
    if not estimates:
        return skipped("the sizes cannot be told: no configuration file here, or none known here")
    largest = max(estimates, key=lambda e: e.demand.weights + e.demand.drafter)
    if context.cpu:
        return _cpu(context, largest)
    return _gpu(context, largest)


def estimate(context: Context, variant: str) -> Estimate | None:
    """What ``variant``'s server will want; None if its model's shape is not known."""
    resolved, files = context.resolved, context.found.files
    model = resolved.model
    target = files.get(model.name) or files.get(place(model.path or "", context.project))
    if target is None or target.config is None:
        return None
    args = context.server_args(variant)
    dtype, kv_dtype = _text(args.get("dtype")), _text(args.get("kv-cache-dtype"))
    weights, source = _weights(target, dtype)
    kv = kv_bytes_per_token(target.config, dtype, kv_dtype)
    if weights is None or kv is None:
        return None
    drafter = 0
    config = resolved.speculative_config(resolved.variants[variant], context.project) or {}
    draft_files = files.get(str(config.get("model")))
    if draft_files is not None and draft_files.config is not None:
        made = eagle3_bytes(draft_files.config) if is_eagle3(draft_files.config) else None
        drafter = made or _weights(draft_files, dtype)[0] or 0
        kv += kv_bytes_per_token(draft_files.config, dtype, kv_dtype) or 0
    length = _tokens(args.get("max-model-len")) or longest(target.config) or 0
    parallel = int(args.get("tensor-parallel-size") or 1)
    most = max((load.concurrency or 1 for load in resolved.experiment.loads), default=1)
    at_once = min(most, int(args.get("max-num-seqs") or most))
    demand = Demand(
        weights=math.ceil(weights / parallel),
        drafter=drafter,
        kv_per_token=max(1, math.ceil(kv / parallel)),
        max_model_len=length,
        wanted_tokens=at_once * length,
    )
    return Estimate(variant, demand, source)


def _weights(files: ModelFiles, dtype: str | None) -> tuple[int | None, str]:
    """Bytes of the weights: of the files, of their index, else by the shape."""
    if files.complete and files.size:
        return files.size, "its files"
    if files.indexed:
        return files.indexed, "its index"
    return weight_bytes(files.config or {}, dtype), "its config.json"


def _gpu(context: Context, found: Estimate) -> Result:
    gpu = context.found.gpu
    if gpu is None:
        return skipped("no GPU is known")
    try:
        now = gpu.nvml.memory(gpu.device)
    except NvmlFault as fault:
        return fail(f"NVML does not answer: {fault}", "ask who runs the node")
    args = context.server_args(found.variant)
    share = float(args.get("gpu-memory-utilization") or UTILIZATION)
    made = fit(found.demand, Supply(now.total, now.total - now.used, share))
    words = _words(found, made, now.total, share)
    file = context.resolved.model.name
    where = f"server_args of config/models/{file}.yaml: the same for all variants"
    if made.fault == "weights":
        return fail(
            words,
            "a larger GPU, several (tensor-parallel-size), or a quantized checkpoint; "
            f"gpu-memory-utilization up to 0.95 gives a little ({where})",
        )
    if made.fault == "length":
        return fail(
            f"{words}; one request of {found.demand.max_model_len} tokens does not fit",
            f"max-model-len at most {made.kv_tokens // 16 * 16} ({where})",
        )
    if made.fault == "occupied":
        return fail(
            f"{words}; vLLM starts only with {gib(made.budget)} free, "
            f"and {gib(now.total - now.used)} are",
            f"wait until the GPU is free, or lower gpu-memory-utilization ({where})",
        )
    if made.crowded:
        return warn(
            f"{words}; the largest load at full length would need {found.demand.wanted_tokens}",
            f"shorter answers fit all the same; else max-model-len or the load smaller ({where})",
        )
    return ok(words)


def _words(found: Estimate, made: Fit, total: int, share: float) -> str:
    demand = found.demand
    drafter = f" + drafter {gib(demand.drafter)}" if demand.drafter else ""
    return (
        f"{found.variant}: weights {gib(demand.weights)} (from {found.source}){drafter} "
        f"+ {gib(OVERHEAD)} of {gib(total)} x {share:.2f}: "
        f"KV cache {gib(max(made.kv_bytes, 0))} = {made.kv_tokens:,} tokens"
    )


def _cpu(context: Context, found: Estimate) -> Result:
    env = context.server_env() | context.own_env(found.variant)
    given = env.get(_CPU_CACHE, "")
    cache = float(given) if given.replace(".", "", 1).isdigit() else _CPU_CACHE_GIB
    needed = found.demand.weights + found.demand.drafter + round(cache * 2**30) + CPU_OVERHEAD
    free = available()
    words = (
        f"{found.variant}: weights {gib(found.demand.weights)} (from {found.source}) + KV cache "
        f"{cache:.0f} GiB + {gib(CPU_OVERHEAD)}: {gib(needed)} of {gib(free)} free"
    )
    if free < needed:
        return fail(words, f"close other programs, or a smaller {_CPU_CACHE} in the model's file")
    tokens = round(cache * 2**30) // found.demand.kv_per_token
    if tokens < found.demand.max_model_len:
        return fail(
            f"{words}; one request of {found.demand.max_model_len} tokens does not fit",
            f"max-model-len at most {tokens // 16 * 16}, or a larger {_CPU_CACHE}",
        )
    return ok(words)


def available(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory that a new process can have: the machine's, or this container's if less."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = (root / "memory.max").read_text(encoding="utf-8").strip()
        used = int((root / "memory.current").read_text(encoding="utf-8"))
        if limit != "max":
            free = min(free, int(limit) - used)
    except (OSError, ValueError):
        pass
    return free


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _tokens(value: Any) -> int | None:
    """vLLM's lengths: a number, or ``16k`` (1000), ``16K`` (1024); None for ``auto``."""
    if value is None:
        return None
    units: Mapping[str, int] = {"k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
    text = str(value)
    try:
        return int(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)
    except ValueError:
        return None
