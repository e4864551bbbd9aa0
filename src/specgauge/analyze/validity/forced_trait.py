"""FORCED_TRAIT: what the method changes in the engine beside the draft, against the baseline."""

from __future__ import annotations

from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.log.traits import EngineTraits

CODE = "FORCED_TRAIT"


def differences(variant: EngineTraits, baseline: EngineTraits) -> list[str]:
    """Traits of ``variant`` that the baseline does not share, each in words.

    A trait that both logs give for the same reason (no Triton on a CPU: V1 on both sides) is no
    difference.  One that only the variant's log speaks of counts if the log gives the method as
    the reason.
    """
    found: list[str] = []
    if variant.runner != baseline.runner and (
        variant.runner_reason or None not in (variant.runner, baseline.runner)
    ):
        reason = f" ({variant.runner_reason})" if variant.runner_reason else ""
        other = f", the baseline on {baseline.runner}" if baseline.runner else ""
        found.append(f"on the {variant.runner} model runner{other}{reason}")
    if variant.async_scheduling != baseline.async_scheduling and (
        variant.async_reason or None not in (variant.async_scheduling, baseline.async_scheduling)
    ):
        state = "on" if variant.async_scheduling else "off"
        reason = f" ({variant.async_reason})" if variant.async_reason else ""
        found.append(f"asynchronous scheduling {state}{reason}")
    size, other_size = variant.kv_cache_tokens, baseline.kv_cache_tokens
    if size is not None and other_size and size != other_size:
        found.append(
            f"KV cache of {size:,} tokens, the baseline's {other_size:,} "
            f"({size / other_size - 1:+.1%})"
        )
    if None not in (variant.attention_backend, baseline.attention_backend) and (
        variant.attention_backend != baseline.attention_backend
    ):
        found.append(
            f"attention backend {variant.attention_backend}, the baseline's "
            f"{baseline.attention_backend}"
        )
    return found


def check(cell: CellContext) -> Reason | None:
    """Info: named in the row; the speed-up is of the whole setting, not of the draft alone."""
    if cell.baseline is None or cell.variant.speculative_config is None:
        return None
    found = differences(cell.start.traits, cell.baseline)
    if not found:
        return None
    return Reason(
        code=CODE,
        severity="info",
        detail="The method also changes the engine: " + "; ".join(found) + ".",
        remedy="For what the draft alone does, compare with a baseline that shares these traits "
        "(matched_baseline).",
    )
