"""Energy, clocks and tenants of planted cards: found again in the figures and the verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from contexts import context
from frozen import stop
from gpu_plant import H200, Card, plant, samples
from synthetic_run import BASE, Built, Plant, StartPlant, build_cell, write_run, write_small_run

from specgauge.analyze import figures, validity
from specgauge.analyze.context import CellContext
from specgauge.analyze.document import Reason
from specgauge.analyze.summary import exit_code, summarise
from specgauge.analyze.telemetry import Telemetry
from specgauge.gpu import throttle
from specgauge.record.reader import read_run

T0 = 1000.0
CELL = build_cell(Plant(requests=20))  # 20 x (0.1 + 63 x 0.03) s: 39.8 s


def on_card(card: Card | None, built: Built = CELL, gpu: dict | None = H200) -> CellContext:
    """The cell on a run whose manifest names ``gpu``, watched or not."""
    cell = context(built)
    record = cell.start.record
    if card is not None:
        assert built.record.document is not None
        frame = samples(card, T0 - 4.0, built.record.document.t_end + 2)
        record = replace(record, telemetry=frame)
    setup = replace(cell.setup, facts={"gpu": gpu} if gpu else {})
    return replace(cell, start=replace(cell.start, record=record), setup=setup)


def found(cell: CellContext, code: str) -> Reason | None:
    return next((r for r in validity.check_cell(cell) if r.code == code), None)


def test_energy_per_token_from_the_counter() -> None:
    # The load generator's start draws 100 W: it is not the cell's.
    seen = figures.observe(on_card(Card(power_w=lambda t: 500.0 if t >= T0 else 100.0)))
    assert seen.gpu is not None
    assert seen.gpu.energy_from == "energy counter"
    assert seen.gpu.energy_j == pytest.approx(500 * seen.duration_s, rel=0.005)
    assert seen.joules_per_token == pytest.approx(500 * seen.duration_s / (20 * 64), rel=0.005)
    assert seen.gpu.power_w == pytest.approx(500, rel=0.005)
    assert seen.gpu.sm_clock_mhz == 1980
    assert seen.gpu.temperature_c == 60


def test_without_a_counter_power_is_summed() -> None:
    ramp = lambda t: 200.0 + 10 * (t - T0)  # noqa: E731
    seen = figures.observe(on_card(Card(power_w=ramp, counter=False)))
    assert seen.gpu is not None
    assert seen.gpu.energy_from == "integral of power"
    seconds = seen.duration_s or 0.0
    assert seen.gpu.energy_j == pytest.approx(200 * seconds + 5 * seconds**2, rel=0.005)


def test_a_counter_that_fell_is_not_used() -> None:
    frame = samples(Card(), T0, T0 + 20)
    frame.loc[frame["t"] > T0 + 10, "energy_j"] -= 6e6
    energy = Telemetry(frame).energy(T0 + 2, T0 + 18)
    assert energy is not None
    assert energy.source == "integral of power"
    assert energy.joules == pytest.approx(16 * 500)
    assert Telemetry(frame).energy(T0 + 2, T0 + 9).source == "energy counter"


def test_a_hole_or_an_end_that_nothing_watched_leaves_energy_open() -> None:
    frame = samples(Card(), T0, T0 + 20)
    holed = Telemetry(frame[(frame["t"] < T0 + 8) | (frame["t"] > T0 + 9.5)])
    assert holed.energy(T0 + 2, T0 + 18) is None
    assert holed.energy(T0 + 2, T0 + 7) is not None
    assert Telemetry(frame).energy(T0 + 2, T0 + 25) is None
    assert Telemetry(frame).energy(T0 - 1, T0 + 5) is None
    none = figures.observe(on_card(None))
    assert (none.gpu, none.joules_per_token) == (None, None)


def test_alone_on_a_calm_card_nothing_is_said() -> None:
    cell = on_card(Card())
    assert [found(cell, code) for code in ("CO_TENANT", "THROTTLED")] == [None, None]
    assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_another_s_process_is_invalid_and_named() -> None:
    cell = on_card(Card(other=lambda t: 1 if T0 + 10 <= t < T0 + 15 else 0))
    seen = found(cell, "CO_TENANT")
    assert seen is not None
    assert seen.severity == "invalid"
    assert "pid 4711 of ann (python train.py)" in seen.detail
    assert seen.evidence["with_others"] == 5
    assert seen.t0 == pytest.approx(10.0, abs=0.1)
    assert validity.verdict(validity.check_cell(cell)) == "INVALID"


@pytest.mark.parametrize(("until", "severity"), [(T0 - 2.0, None), (T0 - 0.5, "invalid")])
def test_another_who_left_before_the_cell(until: float, severity: str | None) -> None:
    seen = found(on_card(Card(other=lambda t: 1 if t <= until else 0)), "CO_TENANT")
    assert (seen.severity if seen else None) == severity


@pytest.mark.parametrize(
    ("card", "words"),
    [
        (Card(ours=0, unknown=1), "1 processes were on the GPU whose owner cannot"),
        (Card(ours=0, unknown=lambda t: 1 if t < T0 + 9 else 2), "1 to 2 processes"),
        (Card(told=False), "did not say who"),
        (None, "No telemetry"),
    ],
)
def test_what_cannot_be_told_is_unknown(card: Card | None, words: str) -> None:
    cell = on_card(card)
    seen = found(cell, "CO_TENANT")
    assert seen is not None
    assert seen.severity == "unknown"
    assert words in seen.detail
    assert validity.verdict(validity.check_cell(cell)) == "VALID"


def test_a_time_without_looks_is_unknown() -> None:
    cell = on_card(Card())
    frame = cell.start.record.telemetry
    frame = frame[(frame["t"] < T0 + 10) | (frame["t"] > T0 + 14)]
    start = replace(cell.start, record=replace(cell.start.record, telemetry=frame))
    seen = found(replace(cell, start=start), "CO_TENANT")
    assert seen is not None
    assert "nobody looked" in seen.detail


def test_a_run_without_a_gpu_shows_neither() -> None:
    hot = Card(other=1, throttle=throttle.HW_THERMAL)
    for card in (None, hot):
        cell = on_card(card, gpu=None)
        assert [found(cell, code) for code in ("CO_TENANT", "THROTTLED")] == [None, None]


@pytest.mark.parametrize(
    "bit",
    [throttle.HW_SLOWDOWN, throttle.SW_THERMAL, throttle.HW_THERMAL, throttle.HW_POWER_BRAKE],
)
def test_heat_and_hardware_slowdowns_are_suspect(bit: int) -> None:
    seen = found(on_card(Card(throttle=lambda t: bit if t < T0 + 4 else 0)), "THROTTLED")
    assert seen is not None
    assert seen.severity == "suspect"
    assert "10% of the samples" in seen.detail
    assert seen.evidence["slowdown_share"] == pytest.approx(0.1, abs=0.01)


def test_a_single_sample_of_many_is_not_called() -> None:
    blip = Card(throttle=lambda t: throttle.HW_THERMAL if T0 + 5 <= t < T0 + 5.15 else 0)
    assert found(on_card(blip), "THROTTLED") is None


def test_a_steady_power_cap_is_told_with_the_clocks() -> None:
    seen = found(on_card(Card(throttle=throttle.POWER_CAP, sm_clock_mhz=1503)), "THROTTLED")
    assert seen is not None
    assert seen.severity == "info"
    assert "Mean SM clock 1503 MHz of 1980" in seen.detail


@pytest.mark.parametrize("bit", [0x1, 0x2, 0x10, 0x100])
def test_idle_and_chosen_clocks_are_no_throttling(bit: int) -> None:
    assert found(on_card(Card(throttle=bit)), "THROTTLED") is None


@pytest.mark.parametrize(("clock", "suspect"), [(1980 / 1.025, False), (1980 / 1.035, True)])
def test_starts_at_other_clocks(tmp_path: Path, clock: float, suspect: bool) -> None:
    starts = {
        (v, k): StartPlant({"c1": [replace(BASE, requests=12, step_s=0.03 + spread * k)]}, round=k)
        for v, spread in (("vanilla", 1e-4), ("ngram", 1.3e-4))
        for k in range(3)
    }
    run = write_run(tmp_path / "run", starts, loads=[{"requests": 12, "concurrency": 1}], rounds=3)
    cards = {key: Card() for key in starts}
    plant(run, {**cards, ("ngram", 1): Card(sm_clock_mhz=clock)})
    summary = summarise(read_run(run))
    by_variant = {
        v: {c.verdict for c in summary.cells if c.variant == v} for v in ("vanilla", "ngram")
    }
    assert by_variant["vanilla"] == {"VALID"}
    assert by_variant["ngram"] == ({"SUSPECT"} if suspect else {"VALID"})
    (row,) = [c for c in summary.comparisons if c.metric == "output_tok_s"]
    assert row.reasons == (["THROTTLED"] if suspect else [])
    assert exit_code(summary, strict=True) == (6 if suspect else 0)


def test_a_run_read_from_its_folder(tmp_path: Path) -> None:
    run = write_small_run(tmp_path / "run")
    plant(run, {("vanilla", 0): Card(), ("vanilla", 1): Card(), ("ngram", 0): Card(other=1)})
    summary = summarise(read_run(run))
    cells = {(c.variant, c.start, c.load): c for c in summary.cells}
    assert cells["vanilla", 0, "c1"].observed.joules_per_token is not None
    assert cells["ngram", 0, "c1"].verdict == "INVALID"
    assert cells["ngram", 0, "c1"].excluded_because == "INVALID"
    assert summary.environment["gpu"]["name"] == "NVIDIA H200"


FROZEN_AT = T0 + 0.7


def watched(power, seconds: float = 2.0, counter: bool = True) -> Reason:
    """The FREEZE of a cell that stands still for ``seconds``, seen by a card."""
    built = stop(build_cell(Plant(requests=20, concurrency=4, step_s=0.02, ttft_s=0.04)),
                 FROZEN_AT, seconds)  # fmt: skip
    assert built.record.document is not None
    early = built.record.document.model_copy(update={"t_begin": T0 - 3})
    built = replace(built, record=replace(built.record, document=early))
    reason = found(on_card(Card(power_w=power, counter=counter), built), "FREEZE")
    assert reason is not None
    return reason


def paused(seconds: float, rest: float = 120.0, work: float = 600.0):
    """At rest before the first send and for ``seconds`` from where it froze."""

    def power(t: float) -> float:
        return rest if t < T0 or FROZEN_AT < t < FROZEN_AT + seconds else work

    return power


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (paused(2.0), "agrees"),
        (paused(1.0), "disagrees"),
        (paused(0.0), "disagrees"),
        (paused(2.0, work=140.0), None),  # no contrast: it cannot tell
    ],
)
def test_the_card_as_a_witness_of_a_freeze(power, said: str | None) -> None:
    assert watched(power).evidence.get("witness GPU's power") == said


def test_rest_before_the_silence_is_none_of_it() -> None:
    """As on an H200 at a cell's first send: idle until the requests came, then at work."""

    def power(t: float) -> float:
        return 120.0 if t < T0 or FROZEN_AT - 0.4 < t < FROZEN_AT + 0.15 else 600.0

    assert watched(power, seconds=0.8).evidence["witness GPU's power"] == "disagrees"


def test_without_a_counter_the_witness_is_coarser() -> None:
    # NVML's power is the mean of the second before.
    def lagging(t: float) -> float:
        return float(np.mean([paused(3.0)(s) for s in np.arange(t - 1.0, t, 0.02)]))

    reason = watched(lagging, seconds=3.0, counter=False)
    assert reason.evidence["witness GPU's power"] == "agrees"
    assert "(to 1.40 s)" in reason.detail
    assert watched(lagging, 1.2, counter=False).evidence.get("witness GPU's power") is None
