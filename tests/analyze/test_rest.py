"""What a card draws at rest, planted: found again, and taken off; nothing else counts as rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from contexts import context
from gpu_plant import Card, samples
from synthetic_run import Built, Plant, build_cell

from specgauge.analyze import figures
from specgauge.analyze.context import CellContext
from specgauge.analyze.counters import Counters
from specgauge.analyze.rest import MIN_SAMPLES, QUIET_S
from specgauge.record.schema import METRICS, SCRAPE_SERIES

REST_W, WORK_W, TAIL_W, AFTER_W = 120.0, 300.0, 250.0, 280.0
TAIL_S = 0.6
"""A card's way down after a cell."""
BEGIN = 996.0
"""The first sample, four seconds before the warm-up."""
WARM = build_cell(Plant(requests=2), load="warmup", t0=1000.0)
CELL = build_cell(Plant(requests=6), t0=1010.0)
Power = Callable[[float], float]


def span(built: Built) -> tuple[float, float]:
    """First send, last chunk."""
    requests = built.record.requests
    return float(requests["t_send"].min()), float(requests["t_last"].max())


WORK = (span(WARM), span(CELL))
END = WORK[1][1]


def truth(t: float) -> float:
    """At work in both, slow to come down, and busy after the last one with what nobody recorded."""
    if any(begin <= t <= end for begin, end in WORK):
        return WORK_W
    if t > END:
        return AFTER_W
    return TAIL_W if WORK[0][1] < t <= WORK[0][1] + TAIL_S else REST_W


def watched(power: Power = truth, *, card: Card | None = None, begin: float = BEGIN) -> CellContext:
    """The cell after its warm-up, watched from ``begin`` until well after its end."""
    cell = context(CELL, warmup=(WARM.record,))
    card = replace(card or Card(), power_w=power)
    record = replace(cell.start.record, telemetry=samples(card, begin, END + 10))
    return replace(cell, start=replace(cell.start, record=record))


def test_rest_is_found_between_cells_and_taken_off() -> None:
    seen = figures.observe(watched())
    assert seen.gpu is not None
    assert seen.gpu.rest_power_w == pytest.approx(REST_W, abs=0.01)
    assert seen.gpu.rest_swing_w == pytest.approx(0.0, abs=0.01)
    seconds, tokens = seen.duration_s or 0.0, seen.output_tokens
    # a 25th of a sample is the plant's own resolution
    assert seen.joules_per_token == pytest.approx(WORK_W * seconds / tokens, rel=0.01)
    assert seen.joules_per_token_above_rest == pytest.approx(
        (WORK_W - REST_W) * seconds / tokens, rel=0.01
    )
    assert seen.gpu.energy_above_rest_j == pytest.approx((WORK_W - REST_W) * seconds, rel=0.01)


def test_without_a_counter_a_sample_is_the_mean_of_the_second_before_it() -> None:
    def lagging(t: float) -> float:
        return float(np.mean([truth(s) for s in np.arange(t - 1.0, t, 0.02)]))

    rest = watched(lagging, card=Card(counter=False)).start.rest
    assert rest is not None
    assert rest.watts == pytest.approx(REST_W, abs=0.01)
    assert rest.swing == pytest.approx(0.0, abs=0.01)


def test_the_way_down_is_no_rest() -> None:
    """As long as work draws more than rest for less than ``QUIET_S``, no sample is of it."""
    assert TAIL_S < QUIET_S
    rest = watched(lambda t: 200.0 if truth(t) == TAIL_W else truth(t)).start.rest
    assert rest is not None
    assert (rest.watts, rest.swing) == (pytest.approx(REST_W), pytest.approx(0.0, abs=1e-6))


def quiet_from(t: float, seconds: float) -> CellContext:
    """Only a warm-up directly before the cell, watched for ``seconds`` before it."""
    cell = context(CELL)
    frame = samples(replace(Card(), power_w=truth), t - seconds, END + 10)
    return replace(
        cell, start=replace(cell.start, record=replace(cell.start.record, telemetry=frame))
    )


@pytest.mark.parametrize(("more", "known"), [(-0.3, False), (0.3, True)])
def test_too_few_samples_tell_no_rest(more: float, known: bool) -> None:
    """All the rest after the last cell, and the second after watching began, do not count."""
    needed = QUIET_S + MIN_SAMPLES / 5
    cell = quiet_from(1010.0, needed + more)
    assert (cell.start.rest is not None) == known
    seen = figures.observe(cell)
    assert seen.gpu is not None
    assert seen.joules_per_token is not None
    assert (seen.gpu.rest_power_w is not None) == known
    assert (seen.joules_per_token_above_rest is not None) == known


def running(cell: CellContext, t0: float, t1: float) -> CellContext:
    """The server says that a request ran from ``t0`` to ``t1``."""
    gauge, scraped = "vllm:num_requests_running", np.arange(t0 - 20, t1 + 5, 0.2)
    rows = [(t, SCRAPE_SERIES, "{}", 0.004) for t in scraped]
    rows += [(t, gauge, "{}", v) for t, v in ((t0 - 20, 0.0), (t0, 1.0), (t1, 0.0))]
    frame = pd.DataFrame(rows, columns=METRICS.names)
    return replace(cell, start=replace(cell.start, counters=Counters(frame)))


def test_what_the_server_or_the_driver_saw_is_no_rest() -> None:
    """Somebody else's work before the warm-up, long enough to be the median."""

    def early(t: float) -> float:
        return 222.0 if t < 1000.0 else truth(t)

    assert watched(early, begin=980.0).start.rest.watts == pytest.approx(222.0)
    told = running(watched(early, begin=980.0), 999.0, 999.8).start.rest
    assert told is not None
    assert told.watts == pytest.approx(REST_W)
    guest = Card(other=lambda t: 1 if t < 1000.0 else 0)
    seen = watched(early, card=guest, begin=980.0).start.rest
    assert seen is not None
    assert seen.watts == pytest.approx(REST_W)


def test_less_than_the_rest_swings_by_is_not_told() -> None:
    def restless(t: float) -> float:
        if truth(t) == WORK_W:
            return 126.0
        return 110.0 if int(t * 5) % 2 else 130.0

    seen = figures.observe(watched(restless))
    assert seen.gpu is not None
    assert seen.gpu.rest_power_w == pytest.approx(120.0, abs=11)
    assert (seen.gpu.rest_swing_w or 0) > 6
    assert seen.gpu.energy_above_rest_j is None
    assert seen.joules_per_token_above_rest is None
    assert seen.joules_per_token is not None
