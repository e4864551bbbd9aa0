"""FORCED_TRAIT: what the method changes in the engine beside the draft, against the baseline."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.log.traits import EngineTraits

CODE = "FORCED_TRAIT"

OTHER_STEPS = {"FULL_AND_PIECEWISE": "piecewise ones", "FULL_DECODE_ONLY": "none"}
"""CUDA graph mode to what serves a step that the full decode graphs do not fit: those take 1 + K
tokens of every request and nothing else (``v1/cudagraph_dispatcher.py``, 0.26 and 0.32)."""
OFTEN_WITHOUT_DRAFT = frozenset({"ngram"})
"""Methods that find no draft, or a short one, at many steps."""

MATCHED = (
    "A matched_baseline on the same runner and scheduling takes those out (same-runner speed-up)."
)


def differences(variant: EngineTraits, baseline: EngineTraits) -> list[str]:
    """Traits of ``variant`` that the baseline does not share, each in words.

    A trait that both logs give for the same reason (no Triton on a CPU: V1 on both sides) is no
    difference.  One that only the variant's log speaks of counts if the log gives the method as
    the reason.
    """
    found = (
        _runner(variant, baseline),
        _scheduling(variant, baseline),
        _graph_sizes(variant, baseline),
        _graph_mode(variant, baseline),
        _kv_cache(variant, baseline),
        _attention(variant, baseline),
    )
    return [words for words in found if words is not None]


def _runner(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    if variant.runner == baseline.runner or (
        not variant.runner_reason and None in (variant.runner, baseline.runner)
    ):
        return None
    reason = f" ({variant.runner_reason})" if variant.runner_reason else ""
    other = f", the baseline on {baseline.runner}" if baseline.runner else ""
    return f"on the {variant.runner} model runner{other}{reason}"


def _scheduling(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    if variant.async_scheduling == baseline.async_scheduling or (
        not variant.async_reason and None in (variant.async_scheduling, baseline.async_scheduling)
    ):
        return None
    state = "on" if variant.async_scheduling else "off"
    reason = f" ({variant.async_reason})" if variant.async_reason else ""
    return f"asynchronous scheduling {state}{reason}"


def _graph_sizes(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    """vLLM captures up to ``max-num-seqs`` x (1 + K) x 2 tokens, at most 512, unless told."""
    size, other = variant.graph_tokens, baseline.graph_tokens
    if size is None or other is None or size == other:
        return None
    whose = "its" if size > other else "here"
    return (
        f"CUDA graphs to {size} tokens, the baseline's to {other} ({whose} steps of "
        f"{min(size, other) + 1} to {max(size, other)} tokens run without one)"
    )


def _graph_mode(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    """A worker leaves a mode that its attention backend cannot capture with drafts."""
    mode, other = variant.graph_mode, baseline.graph_mode
    if mode == other or (mode is None and not variant.graphs_off):
        return None
    if other is None and not baseline.graphs_off:
        return None
    return f"CUDA graph mode {mode or 'NONE'}, the baseline's {other or 'NONE'}"


def _kv_cache(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    size, other = variant.kv_cache_tokens, baseline.kv_cache_tokens
    if size is None or not other or size == other:
        return None
    return f"KV cache of {size:,} tokens, the baseline's {other:,} ({size / other - 1:+.1%})"


def _attention(variant: EngineTraits, baseline: EngineTraits) -> str | None:
    backend, other = variant.attention_backend, baseline.attention_backend
    if backend is None or other is None or backend == other:
        return None
    return f"attention backend {backend}, the baseline's {other}"


def _full_graphs(cell: CellContext) -> str | None:
    """Which steps are spared the full graph, for a method that often has no draft."""
    others = OTHER_STEPS.get(cell.start.traits.graph_mode or "")
    config = cell.variant.speculative_config or {}
    if others is None or config.get("method") not in OFTEN_WITHOUT_DRAFT or not cell.variant.k:
        return None
    return (
        f"full CUDA graphs only for steps in which every request drafts K = {cell.variant.k} "
        f"tokens, {others} for all others"
    )


def check(cell: CellContext) -> Reason | None:
    """Info: named in the row; the speed-up is of the whole setting, not of the draft alone."""
    if cell.baseline is None or cell.variant.speculative_config is None:
        return None
    mine, theirs = cell.start.traits, cell.baseline
    found = differences(mine, theirs)
    if graphs := _full_graphs(cell):
        found.append(graphs)
    if not found:
        return None
    remedies = [MATCHED] if _runner(mine, theirs) or _scheduling(mine, theirs) else []
    if _graph_sizes(mine, theirs):
        widest = max(mine.graph_tokens or 0, theirs.graph_tokens or 0)
        remedies.append(
            f"For graphs of the same sizes set max-cudagraph-capture-size: {widest} in the "
            "model's server_args."
        )
    return Reason(
        code=CODE,
        severity="info",
        detail="The method also changes the engine: " + "; ".join(found) + ".",
        remedy=" ".join(remedies) or None,
    )
