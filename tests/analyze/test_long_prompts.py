"""Prompts of thousands of tokens, read in pieces: no clean wait is a freeze, and a freeze is."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from specgauge.analyze import freezes, prefill, silences
from specgauge.analyze.document import Cell
from specgauge.analyze.records import LoadSetup, RunRecord, RunSetup, StartRecord, VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.simulate.truth import Truth

SINGLY, TOGETHER = "c1", "c16"
REQUESTS = {SINGLY: 8, TOGETHER: 64}
LENGTHS = {"long": (8000,), "half": (2000,), "mixed": (200, 8000)}


def start(
    lengths: tuple[int, ...], budget: int, rate: float, freeze: dict[str, Any] | None = None,
    *, repeated: bool = False, output_tokens: int = 64,
) -> StartRecord:  # fmt: skip
    """A server that reads ``rate`` tokens/s, at most ``budget`` a step, under two loads."""
    truth = Truth.model_validate(
        {
            "step_ms": {1: 25, 16: 40},
            "prefill_tokens_per_s": rate,
            "max_batched_tokens": budget,
            "kv_cache_tokens": 50_000_000,
            "freezes": [freeze] if freeze else [],
        }
    )
    server = VirtualStart(truth, "vanilla", "vanilla")
    dice = random.Random(0)
    for load, concurrency in ((SINGLY, 1), (TOGETHER, 16)):
        prompts = [
            [dice.randrange(20, 30_000) for _ in range(dice.choice(lengths))]
            for _ in range(REQUESTS[load])
        ]
        server.cell(load, prompts, concurrency, output_tokens)
    if repeated:
        server.reset()
        server.cell(TOGETHER, prompts, 16, 64, confirms=True, reset=True)
    return server.record()


def cells(record: StartRecord) -> dict[str, Cell]:
    loads = (LoadSetup(SINGLY, REQUESTS[SINGLY], 1), LoadSetup(TOGETHER, REQUESTS[TOGETHER], 16))
    setup = RunSetup("e", "r", "m", "vanilla", (VariantSetup("vanilla"),), loads)
    return {c.load: c for c in summarise(RunRecord(setup, (record,))).cells}


def frozen(cell: Cell) -> float:
    return cell.derived.frozen_s if cell.derived else 0.0


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(("budget", "rate"), [(2048, 5_000), (8192, 20_000)])
def test_reading_is_no_freeze_however_it_is_cut(lengths: str, budget: int, rate: float) -> None:
    """2048 tokens a step is vLLM's own default with a drafter: 8,000 then take four steps."""
    for cell in cells(start(LENGTHS[lengths], budget, rate)).values():
        assert cell.verdict == "VALID", (cell.load, cell.reasons)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    ("budget", "rate", "output_tokens"),
    [(8192, 2_000, 4), (2048, 20_000, 4), (2048, 2_000, 2), (512, 40_000, 16), (8192, 20_000, 1)],
)
def test_reading_is_no_freeze_where_hardly_a_step_is_without(
    lengths: str, budget: int, rate: float, output_tokens: int
) -> None:
    """Short answers to long prompts: what a step takes by itself is hardly seen at 16 at once, and
    taken too high it leaves a rate at which single prompts, read in seconds, would have frozen."""
    record = start(LENGTHS[lengths], budget, rate, output_tokens=output_tokens)
    for cell in cells(record).values():
        assert frozen(cell) == 0, (cell.load, cell.reasons)


@pytest.mark.parametrize(("budget", "rate"), [(2048, 5_000), (2048, 20_000), (8192, 20_000)])
@pytest.mark.parametrize("seconds", [1.0, 3.3])
def test_a_stall_between_chunks_is_found_though_most_steps_read_prompts(
    budget: int, rate: float, seconds: float
) -> None:
    """Most steps take 130 to 450 ms with a piece of a prompt, and 40 without: ten of the former
    would be deaf to 4 s."""
    stall = {"length_s": seconds, "phase": "after_first_token",
             "after_tokens": (REQUESTS[SINGLY] + 24) * 64, "when_batch": 16}  # fmt: skip
    found = cells(start(LENGTHS["long"], budget, rate, stall))
    assert frozen(found[SINGLY]) == 0
    assert frozen(found[TOGETHER]) == pytest.approx(seconds, abs=0.1)
    (reason,) = [r for r in found[TOGETHER].reasons if r.code == "FREEZE"]
    assert reason.evidence["from"] == "chunks"


def test_a_stall_that_most_steps_without_prefill_hold_is_found() -> None:
    """One wave of 32 and three steps after each first token; few steps are without prefill, and
    the stall is in most of those."""
    stall = {"length_s": 3.3, "phase": "after_first_token", "after_tokens": 8 * 4 + 32 * 2}
    truth = Truth.model_validate(
        {"step_ms": {1: 25, 16: 30}, "prefill_tokens_per_s": 20_000, "max_batched_tokens": 2048,
         "kv_cache_tokens": 50_000_000, "freezes": [stall]}
    )  # fmt: skip
    server = VirtualStart(truth, "vanilla", "vanilla")
    prompts = [[1000 * i + token for token in range(1000)] for i in range(40)]
    single = server.cell("c1", prompts[:8], 1, 4)
    wave = server.cell("c32", prompts[8:], 32, 4)
    ordinary = prefill.ordinary_step(wave.requests, wave.chunks)
    assert ordinary is not None
    assert ordinary > 1.0, "else it is no case of this test"
    pool = prefill.samples(single.requests, single.chunks, None)
    (found,) = freezes.find(wave.requests, wave.chunks, None, pool)
    assert found.seconds == pytest.approx(3.3, abs=0.2)


@pytest.mark.parametrize(("lengths", "budget"), [("long", 2048), ("half", 8192)])
@pytest.mark.parametrize("at", [0, 4, 19])
def test_a_stall_in_a_wave_of_long_prompts_is_found(lengths: str, budget: int, at: int) -> None:
    """3.3 s: less than the wave's own 6.4 s of prefill, which is not in the way of one step."""
    plant = {"length_s": 3.3, "phase": "before_first_token", "at_request": 9 + at}
    found = cells(start(LENGTHS[lengths], budget, 20_000, plant))
    assert found[SINGLY].verdict == "VALID"
    assert found[TOGETHER].verdict == "SUSPECT"
    assert frozen(found[TOGETHER]) == pytest.approx(3.3, rel=0.3)
    assert frozen(found[TOGETHER]) < 3.3 + 0.05, "a correction never flatters"


@pytest.mark.parametrize("budget", [2048, 8192])
def test_the_rate_is_the_servers_under_every_load(budget: int) -> None:
    """Not above it, which would call prefill a freeze; below by the steps that no chunk shows."""
    record = start(LENGTHS["long"], budget, 20_000)
    for cell in record.cells:
        pool = prefill.samples(cell.requests, cell.chunks, None)
        rate = prefill.rate(pool)
        assert rate is not None
        assert 0.8 * 20_000 < rate < 1.02 * 20_000, cell.load


def test_an_ordinary_step_holds_no_prefill() -> None:
    cell = start(LENGTHS["long"], 2048, 5_000).cells[1]
    assert prefill.median_step(cell.chunks) > 0.3
    assert prefill.ordinary_step(cell.requests, cell.chunks) == pytest.approx(0.04, rel=0.1)


def test_at_most_one_more_prompt_was_begun() -> None:
    waiting = silences.Silence(0.0, 5.0, 4, 0, (0, 1, 2, 3), "arrival")
    first = pd.Series({0: 5.0, 1: 5.001, 2: 6.0, 3: float("nan")})
    tokens = pd.Series({0: 100.0, 1: 200.0, 2: 3000.0, 3: 4000.0})
    assert prefill.computed(waiting, first, tokens, 0.02) == 100 + 200 + 4000
    alone = replace(waiting, pending=(0, 1))
    assert prefill.computed(alone, first, tokens, 0.02) == 300
    assert prefill.computed(waiting, first, tokens, 0.02, ahead=5000) == 300 + 5000
    assert prefill.computed(waiting, first, tokens, 0.02, ahead=9000) == 300 + 7000
    assert prefill.computed(alone, first, tokens, 0.02, ahead=9000) == 300


RATE, BUDGET, STEP_S, OUTPUTS = 10_000.0, 8192, 0.02, 20


def wave(stall_s: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """64 prompts of 300 tokens at once, outputs given out when the step after theirs has ended.

    As seen on an H200 (Qwen3-32B's shapes, c64): the first prompt is read alone, the others 27 a
    step.  The second step stands still for ``stall_s``.
    """
    ends = [0.3 / 10]
    for n in (27, 27, 9):
        ends.append(ends[-1] + n * 300 / RATE + (stall_s if len(ends) == 1 else 0.0))
    ends += [ends[-1] + STEP_S * k for k in range(1, OUTPUTS + 8)]
    batch = [0] + [1] * 27 + [2] * 27 + [3] * 9
    out = [[ends[b + 1 + j] for j in range(OUTPUTS)] for b in batch]
    requests = pd.DataFrame(
        {
            "index": range(64), "t_send": 0.0, "t_first": [t[0] for t in out],
            "t_last": [t[-1] for t in out], "t_done": [t[-1] for t in out],
            "prompt_tokens": 300, "cached_tokens": pd.array([0] * 64, dtype="Int64"),
        }
    )  # fmt: skip
    rows = [(i, j, t) for i, times in enumerate(out) for j, t in enumerate(times)]
    return requests, pd.DataFrame(rows, columns=["request", "seq", "t"])


@pytest.mark.parametrize(("ahead", "stall_s", "frozen_s"), [
    (BUDGET, 0.0, None), (BUDGET, 1.5, 1.5), (0.0, 0.0, 0.75)])  # fmt: skip
def test_outputs_that_come_a_step_late_are_no_freeze(
    ahead: float, stall_s: float, frozen_s: float | None
) -> None:
    """Without knowing of asynchronous scheduling the first wait would be called one."""
    pool = [prefill.Sample(-1.0, 1000.0, 1000.0 / RATE)]
    found = freezes.find(*wave(stall_s), None, pool, ahead)
    if frozen_s is None:
        assert found == []
    else:
        assert sum(f.seconds for f in found) == pytest.approx(frozen_s, abs=0.12)


def test_a_wait_that_nothing_explains_is_said_to_be_unknown() -> None:
    """One wave, nothing else: 3 s of prefill and a 3 s stall look alike."""
    record = start(LENGTHS["half"], 1_000_000, 10_000)
    wave = record.cells[1]
    few = wave.requests[wave.requests["index"] < 16]
    chunks = wave.chunks[wave.chunks["request"] < 16]
    alone = replace(record, cells=(replace(wave, requests=few, chunks=chunks),))
    (cell,) = cells(alone).values()
    (seen,) = [r for r in cell.reasons if r.code == "FREEZE"]
    assert seen.severity == "unknown"
    assert seen.evidence["longest_s"] == pytest.approx(3.2, abs=0.1)
    assert cell.derived is None
    assert not freezes.find(few, chunks, None, ())


@pytest.mark.parametrize("at", [0, 3, 20])
def test_a_repeat_says_how_much_of_a_stall_was_prefill(at: int) -> None:
    """Without one the estimate errs on the safe side; with one the length is right to 5 %."""
    plant = {"length_s": 3.3, "phase": "before_first_token", "at_request": 9 + at}
    once = start(LENGTHS["long"], 8192, 20_000, plant, repeated=True)
    found = cells(once)[TOGETHER].derived
    assert found is not None
    assert (found.confirmation, found.verdict) == ("CONFIRMED ONE-OFF", "VALID")
    assert found.frozen_s == pytest.approx(3.3, rel=0.05)
