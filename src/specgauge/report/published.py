"""The table of published results beside ours."""

from __future__ import annotations

from collections.abc import Mapping

from specgauge.analyze.document import Summary
from specgauge.report import numbers
from specgauge.report.table import Column, Table, Value

NAMES = {"output_tok_s": "output tok/s", "tpot_ms": "TPOT ms", "ttft_ms": "TTFT ms",
         "speedup": "speed-up", "duration_s": "duration s"}  # fmt: skip

ABSOLUTE = ("output_tok_s", "tpot_ms", "ttft_ms", "duration_s")
"""Metrics of a reference that belong to its model and machine."""


def _like_ours(conditions: Mapping[str, str], summary: Summary) -> bool:
    """The same model, and on a GPU as ours or on none as ours, as far as names tell."""
    machine = summary.environment.get("machine")
    on_gpu = bool(machine.get("gpus")) if isinstance(machine, dict) else False
    theirs = conditions.get("model", "").split(" ")[0]
    same = bool(theirs) and _name(theirs) == _name(_ours(summary))
    return same and on_gpu != ("cpu" in conditions.get("gpu", "").lower())


def _ours(summary: Summary) -> str:
    """What our weights are called; where nobody said, what the model is."""
    return str(summary.environment.get("weights") or summary.model)


def _name(model: str) -> str:
    """Without its owner: ``Qwen/Qwen3-32B`` is ``qwen3-32b``."""
    return model.lower().rpartition("/")[2]


def table(summary: Summary) -> Table:
    """Published results beside ours: ratios of any, throughputs and times only of our model."""
    names = ("source", "variant", "load", "metric", "basis")
    columns = (
        *(Column(name, name) for name in names),
        Column("theirs", "theirs", lambda v: numbers.number(v, 2)),
        Column("ours", "ours", lambda v: numbers.number(v, 2)),
        Column("difference", "difference", lambda v: numbers.MISSING if v is None else f"{v:+.0%}"),
        Column("their_conditions", "their conditions"),
        Column("verdict", "verdict of ours"),
    )
    rows: list[list[Value]] = [
        [r.source, r.variant, r.load, NAMES.get(r.metric, r.metric.replace("_", " ")), r.basis,
         r.theirs, r.ours, r.difference,
         ", ".join(r.conditions.get(k, "") for k in ("model", "gpu", "vllm")), r.verdict]
        for r in summary.references
        if r.metric not in ABSOLUTE or _like_ours(r.conditions, summary)
    ]  # fmt: skip
    return Table("references", "Published results beside ours", columns, rows)
