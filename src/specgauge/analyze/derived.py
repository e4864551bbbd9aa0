"""Corrected throughput: output tokens / (duration - frozen), with its source and its verdict."""

from __future__ import annotations

from dataclasses import dataclass

from specgauge.analyze import freezes
from specgauge.analyze.confirmation import Confirmation
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Derived, Reason
from specgauge.analyze.freezes import Freeze
from specgauge.analyze.part import Verdict

FREEZE = "FREEZE"
MATERIAL = 0.02
"""Prefill / frozen time from which its estimate is worth asking the repeat: freezes are to be right
to 5 %."""


@dataclass(frozen=True)
class Size:
    """Frozen seconds and where they were taken from."""

    seconds: float
    source: str


def size(freeze: Freeze, cell: CellContext) -> Size:
    """Of one freeze.

    Between chunks it is measured.  Before any token it is TTFT: then its size is its silence less
    the same silence in a repeat that did not stand still there, else less an estimate.  So it is
    between chunks where a long prompt was read in it: the estimate is an upper bound.
    """
    if freeze.silence.decoding and freeze.prefill_s <= MATERIAL * freeze.seconds:
        return Size(freeze.seconds, "chunks")
    repeat, said = cell.repeat, cell.confirmation
    if repeat is not None and said is not None and said.word in ("CONFIRMED ONE-OFF", "NEW STALL"):
        usual = freezes.length_like(freeze, repeat.requests, repeat.chunks)
        if usual is not None:
            return Size(max(freeze.silence.seconds - usual, 0.0), "confirming repeat")
    if freeze.silence.decoding:
        return Size(freeze.seconds, "chunks")
    return Size(freeze.seconds, "prefill rate")


def derive(cell: CellContext, reasons: list[Reason]) -> Derived | None:
    """What the cell's throughput would be without its freezes; None without a freeze.

    An open load's has none: no freeze changes how many requests are offered.

    VALID only if a repeat confirmed a one-off and nothing else taints the cell.
    """
    if not cell.freezes or cell.span is None:
        return None
    sizes = [size(freeze, cell) for freeze in cell.freezes]
    frozen = sum(s.seconds for s in sizes)
    left = cell.span.seconds - frozen
    tokens = int(cell.requests["output_tokens"].sum())
    is_open = cell.load.rate is not None  # its throughput is the offered rate, whatever froze
    said = cell.confirmation
    return Derived(
        frozen_s=frozen,
        output_tok_s=tokens / left if left > 0 and not is_open else None,
        from_=" and ".join(dict.fromkeys(s.source for s in sizes)),
        verdict=_verdict(said, reasons),
        confirmation=said.word if said else None,
    )


def taken_off(reason: Reason, reasons: list[Reason]) -> bool:
    """Whether correcting for the freezes also takes ``reason`` away."""
    if reason.code == FREEZE and reason.severity != "unknown":
        return True
    causes = {r.cause for r in reasons if r.code == FREEZE}
    return reason.code == "FIRST_CALL" and "FIRST_CALL" in causes


def _verdict(said: Confirmation | None, reasons: list[Reason]) -> Verdict:
    of_cell = [r for r in reasons if r.scope == "cell"]
    others = {r.severity for r in of_cell if not taken_off(r, reasons)}
    if "invalid" in others:
        return "INVALID"
    negligible = all(r.severity != "suspect" for r in of_cell if r.code == FREEZE)
    confirmed = negligible or (said is not None and said.word == "CONFIRMED ONE-OFF")
    return "VALID" if confirmed and "suspect" not in others else "SUSPECT"
