"""How sure the model was where a start's greedy outputs leave the baseline's.

Asked after the start's last cell, so that no measured request carries log-probabilities: the prompt
and the common begin of the output, one token, the two best of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from specgauge.analyze import divergence
from specgauge.analyze.records import CellRecord
from specgauge.plan import StartPlan
from specgauge.record.atomic import write_json
from specgauge.record.documents import Margin, Margins
from specgauge.record.layout import RunPaths, is_measured
from specgauge.record.reader import read_cell
from specgauge.record.runs import outcome_of
from specgauge.run.client import Client

MOST = 16
"""Questions per cell: each costs a prefill; half of them tell ties from losses."""


def ask(
    client: Client, run: RunPaths, plan: StartPlan, k: int, baseline: str,
    prompts: Mapping[str, tuple[int, ...]],
) -> None:  # fmt: skip
    """Write ``margins.json`` for start ``k``; nothing without a baseline start to compare with.

    ``prompts``: token ids by prompt id.  A question that the server does not answer has no margin.
    """
    other = _counterpart(run, plan, k, baseline)
    if other is None:
        return
    found: list[Margin] = []
    for load, repeat, paths in run.start(plan.variant, k).cells():
        if not is_measured(load):
            continue
        mine = read_cell(plan.variant, k, load, repeat, paths)
        base = read_cell(
            baseline, other, load, repeat, run.start(baseline, other).cell(load, repeat)
        )
        if mine.document is not None and mine.document.temperature == 0:
            found += _of_cell(client, mine, base, prompts)
    document = Margins(variant=baseline, start=other, margins=found)
    write_json(run.start(plan.variant, k).margins, document.model_dump(mode="json"))


def _counterpart(run: RunPaths, plan: StartPlan, k: int, baseline: str) -> int | None:
    """The complete baseline start of the same round; of a baseline start its first sibling."""
    complete = [
        (outcome.round, start)
        for variant, start, paths in run.starts()
        if variant == baseline
        and (variant, start) != (plan.variant, k)
        and (outcome := outcome_of(paths.outcome)) is not None
        and outcome.state == "complete"
    ]
    if plan.variant == baseline:
        return min((start for _, start in complete), default=None)
    return max((start for number, start in complete if number == plan.round), default=None)


def _of_cell(
    client: Client, mine: CellRecord, base: CellRecord, prompts: Mapping[str, tuple[int, ...]]
) -> list[Margin]:
    parted, _ = divergence.compare(mine, base)
    texts = divergence.outputs(mine.chunks)
    ids = dict(zip(mine.requests["index"], mine.requests["prompt_id"], strict=True))
    return [
        Margin(
            load=mine.load,
            repeat=mine.repeat,
            index=d.index,
            position=d.position,
            margin=client.margin([*prompts[ids[d.index]], *texts[d.index][: d.position]]),
        )
        for d in parted[:MOST]
        if ids[d.index] in prompts
    ]
