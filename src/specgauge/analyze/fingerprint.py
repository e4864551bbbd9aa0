"""What a cell was measured under, aspect by aspect: what must be alike on both sides.

Left out is what the method is (its speculative config), what it forces (runner, scheduling: those
are FORCED_TRAIT) and what changes nothing (ports, cache folders' names, the compile monitor).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from specgauge.analyze.records import CellRecord, RunSetup, StartRecord

TRAIT_FLAGS = frozenset({"async-scheduling"})
"""Set in a matched baseline to share what a method forces."""
TRAIT_ENV = frozenset({"VLLM_USE_V2_MODEL_RUNNER"})
NEUTRAL_FLAGS = frozenset(
    {"host", "port", "speculative-config", "jit-monitor-verbose", "jit-monitor-mode"}
)
NEUTRAL_ENV_PARTS = (
    *("_CACHE_ROOT", "_CACHE_DIR", "_CACHE_HOME", "CACHE_PATH", "HF_HUB_CACHE"),
    *("SPECGAUGE", "WORKSPACE", "DEV_MODE", "USAGE_STATS", "TRACK"),
)
"""Folders, marks and reporting: no word of how tokens are made.  A cache's *size* is one
(``VLLM_CPU_KVCACHE_SPACE``): it is none of them."""

Fingerprint = Mapping[str, str]
"""Aspect → value, in words short enough to print."""


def of(cell: CellRecord, start: StartRecord, setup: RunSetup, version: str | None) -> Fingerprint:
    """The aspects of one cell; an aspect that nothing recorded is left out."""
    experiment = setup.facts.get("experiment") or {}
    found: dict[str, str] = {
        "compile-cache policy": str(experiment.get("compile_cache", "")),
        "runtime": str(setup.facts.get("runtime", "")),
        "vLLM version": version or "",
        **_sent(cell),
    }
    if start.launch is not None:
        for flag, value in flags(start.launch.argv).items():
            found[f"flag --{flag}"] = value
        for name, value in start.launch.env.items():
            if name not in TRAIT_ENV and not any(part in name for part in NEUTRAL_ENV_PARTS):
                found[f"variable {name}"] = value
    if cell.document is not None:
        found["prefix-cache policy"] = cell.document.prefix_cache
        found["ignore_eos"] = str(cell.document.ignore_eos)
    return {aspect: value for aspect, value in found.items() if value}


def _sent(cell: CellRecord) -> dict[str, str]:
    """Prompts with their order and lengths, and the sampling, as sent."""
    rows = cell.requests.sort_values("index")
    if rows.empty:
        return {}
    prompts = [[str(i), int(n)] for i, n in zip(rows["prompt_id"], rows["prompt_tokens"],
                                                strict=True)]  # fmt: skip
    temperatures = sorted({str(t) for t in rows["temperature"].dropna()})
    seeds = [int(seed) for seed in rows["seed"].dropna()]
    return {
        "prompts and their order": digest(prompts),
        "output length": ", ".join(str(n) for n in sorted({int(n) for n in rows["max_tokens"]})),
        "temperature": ", ".join(temperatures),
        "seeds": digest(seeds),
    }


def flags(argv: list[str]) -> dict[str, str]:
    """vLLM's flags of a command line that could make a difference: name → value.

    ``--no-x`` is ``x`` = ``false``, a bare ``--x`` is ``true``.
    """
    found: dict[str, str] = {}
    name: str | None = None
    for word in argv:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name.startswith("no-"):
                name, value = name[3:], "false"
            found[name] = value or "true"
        elif name is not None:
            found[name] = word if found[name] == "true" else f"{found[name]} {word}"
    return {n: v for n, v in found.items() if n not in NEUTRAL_FLAGS | TRAIT_FLAGS}


def digest(value: object) -> str:
    """Ten hexadecimal digits that stand for ``value``."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def differences(one: Fingerprint, other: Fingerprint) -> list[str]:
    """Aspects that differ, each in words; one that a side does not tell is no difference.

    A flag or variable that one side lacks is at its default there: that differs.
    """
    found = []
    for aspect in sorted(one.keys() | other.keys()):
        a, b = one.get(aspect), other.get(aspect)
        optional = aspect.startswith(("flag ", "variable "))
        if a == b or (not optional and None in (a, b)):
            continue
        found.append(f"{aspect}: {a or 'not set'} against {b or 'not set'}")
    return found
