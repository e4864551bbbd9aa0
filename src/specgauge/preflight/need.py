"""Does it fit?  vLLM's own rules for memory, on figures known before anything is loaded.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30

UTILIZATION = 0.92
"""vLLM's default of gpu_memory_utilization (0.26 to 0.32; older ones 0.9)."""
OVERHEAD = round(2.6 * GIB)
"""Activations and libraries beside weights and KV cache, inside the budget.  vLLM 0.26's own
account on an H200 at 32B: 1.8 GiB (vanilla), 2.6 GiB (eagle3); in the original report about 1.5."""
CPU_OVERHEAD = round(2.5 * GIB)
"""API server, engine and torch on a CPU: about 2 GB beside weights and cache with SmolLM2."""


@dataclass(frozen=True)
class Demand:
    """What one variant's server wants; bytes unless it says tokens."""

    weights: int
    drafter: int
    kv_per_token: int
    """Target and drafter together."""
    max_model_len: int
    """Tokens; vLLM refuses to start unless one request of this length fits."""
    wanted_tokens: int
    """Tokens that the largest load can hold at once, all requests at full length."""


@dataclass(frozen=True)
class Supply:
    """What the GPU has."""

    total: int
    free: int
    utilization: float


@dataclass(frozen=True)
class Fit:
    """The outcome; exactly one of the faults, or none."""

    budget: int
    """total x utilization."""
    kv_bytes: int
    """Left for the KV cache; negative if not even the weights fit."""
    kv_tokens: int
    fault: str | None
    """``occupied``: too little is free now for vLLM to start (it demands the whole budget).
    ``weights``: they do not fit.  ``length``: no request of max_model_len fits."""
    crowded: bool
    """The largest load may not fit at full length: requests would wait or be preempted."""


def fit(demand: Demand, supply: Supply, overhead: int = OVERHEAD) -> Fit:
    """vLLM's rules: free >= total x utilization at start-up; what weights and activations leave of
    that budget is the KV cache, and it must hold one request of max_model_len."""
    budget = round(supply.total * supply.utilization)
    left = budget - demand.weights - demand.drafter - overhead
    tokens = max(left, 0) // demand.kv_per_token
    fault = None
    if left <= 0:
        fault = "weights"
    elif tokens < demand.max_model_len:
        fault = "length"
    elif supply.free < budget:
        fault = "occupied"
    return Fit(budget, left, tokens, fault, fault is None and tokens < demand.wanted_tokens)
