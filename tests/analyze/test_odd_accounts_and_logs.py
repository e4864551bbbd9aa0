"""What odd records and planted runs must not lead to: a traceback, a false word, a silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contexts import CLEAN, codes, context, reason
from cpu_plant import ENGINE, MACHINE, accounts
from gpu_plant import H200, Card, samples
from short_runs import C1, vanilla
from synthetic_run import BASE, FAST, NGRAM, VANILLA_LOG, StartPlant, build_cell, write_run

from specgauge.analyze import slower_cpu
from specgauge.analyze.log import traits
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import LogLine, RunRecord
from specgauge.analyze.summary import Summary, summarise
from specgauge.analyze.validity import cpu_bound
from specgauge.analyze.validity.forced_trait import differences
from specgauge.record.reader import read_run
from specgauge.record.schema import CPU_RUN, CPU_STOLEN, CPU_WAIT
from specgauge.report import words

C4 = {"requests": 32, "concurrency": 4}
SLOW, QUICK = replace(FAST, step_s=0.09), replace(FAST, coverage=1.0)


def three_rounds(folder: Path) -> RunRecord:
    """ngram loses, x wins."""
    starts = {}
    for name, plant, config in (("vanilla", BASE, None), ("ngram", SLOW, NGRAM),
                                ("x", QUICK, NGRAM)):  # fmt: skip
        for k in range(3):
            mine = replace(plant, **C4, step_s=plant.step_s * (1 + 0.002 * k), seed=k)
            starts[name, k] = StartPlant({"c4": [mine]}, round=k, log=VANILLA_LOG,
                                         speculative_config=config)  # fmt: skip
    return read_run(write_run(folder, starts, loads=[C4], rounds=3))


def failed(run: RunRecord, variant: str, start: int | None = None, repeat: int = 0) -> RunRecord:
    """``run`` with requests of one cell failed: INVALID."""
    found = []
    for s in run.starts:
        if s.variant != variant or start not in (None, s.start):
            found.append(s)
            continue
        cells = []
        for cell in s.cells:
            requests = cell.requests.copy()
            if cell.repeat == repeat:
                requests.loc[requests.index[:3], "state"] = "failed"
            cells.append(replace(cell, requests=requests))
        found.append(replace(s, cells=tuple(cells)))
    return replace(run, starts=tuple(found))


def advice(summary: Summary) -> str:
    (found,) = summary.recommendations
    return found.text


def test_a_variant_whose_cells_do_not_count_is_not_called_slower(tmp_path: Path) -> None:
    run = three_rounds(tmp_path / "r")
    assert "deploy x" in advice(summarise(run))
    for other in (
        failed(run, "x"),
        replace(run, starts=tuple(s for s in run.starts if s.variant != "x")),
        replace(run, starts=tuple(s for s in run.starts if s.variant != "x" or s.start == 0)),
    ):
        assert advice(summarise(other)).startswith("c4: stay with vanilla: ngram is slower (")


def test_every_variant_is_slower_where_every_one_was_seen_to_be(tmp_path: Path) -> None:
    run = three_rounds(tmp_path / "r")
    setup = replace(run.setup, variants=tuple(v for v in run.setup.variants if v.name != "x"))
    both = replace(run, setup=setup, starts=tuple(s for s in run.starts if s.variant != "x"))
    assert "every variant is slower" in advice(summarise(both))


def test_repeats_that_are_missing_make_no_start_unsteady(tmp_path: Path) -> None:
    """The second repeat finds a warm cache: it is faster on every start."""
    pair = [replace(BASE, requests=64, concurrency=4, output_tokens=8, ttft_s=t)
            for t in (0.24, 0.05)]  # fmt: skip
    load = {"requests": 64, "concurrency": 4}
    starts = {("vanilla", k): StartPlant({"c4": pair}, round=k) for k in range(3)}
    run = read_run(write_run(tmp_path / "r", starts, loads=[load], rounds=3, repeats=2))
    told = [r.code for c in summarise(failed(run, "vanilla", 1)).cells for r in c.reasons]
    assert "INCOMPLETE" in told
    assert "UNSTEADY" not in told


def test_a_start_that_was_replaced_disturbs_nothing(tmp_path: Path) -> None:
    starts = {("vanilla", k): vanilla(0.03, round=k) for k in range(2)}
    starts["vanilla", 9] = vanilla(0.03, round=0, state=None)
    run = read_run(write_run(tmp_path / "r", starts, loads=C1, rounds=2))
    summary = summarise(run)
    share = {"severity": "suspect", "code": "SERVER_STARVED", "detail": "d", "remedy": None,
             "evidence": {"share": 0.8}}  # fmt: skip
    for start, disturbed in ((9, False), (0, True)):
        data = summary.model_dump(by_alias=True)
        for cell in data["cells"]:
            if cell["start"] == start:
                cell["reasons"].append(share)
        said = words.disturbed(Summary.model_validate(data))
        assert (said is not None) == disturbed


def test_what_the_hypervisor_took_from_a_large_machine_is_a_bound() -> None:
    cell = context(build_cell(CLEAN))
    assert cell.span is not None
    grown = {(CPU_RUN, ENGINE): 1.0, (CPU_WAIT, ENGINE): 0.0,
             (CPU_STOLEN, MACHINE): 30 * cell.span.seconds}  # fmt: skip
    cell = accounts(cell, 0.1, 0.1, grown)
    setup = replace(cell.setup, facts={"machine": {"cores": 64}})
    seen = reason(replace(cell, setup=setup), "SERVER_STARVED")
    assert "100% of 4 CPUs, were all of it theirs" in seen.detail
    assert seen.evidence["share"] == 1.0


def test_what_the_hypervisor_took_counts_where_no_account_lies_near() -> None:
    taken = {"host_load": {"steal_s_before": 0.0, "steal_s_after": 1000.0}}
    cell = accounts(context(build_cell(CLEAN), document=taken), 9.0, 9.0, {(CPU_RUN, ENGINE): 1.0})
    seen = reason(cell, "SERVER_STARVED")
    assert (seen.severity, seen.evidence["steal_share"]) == ("suspect", 1.0)


def test_preemptions_that_were_counted_anew_are_none() -> None:
    cell = context(build_cell(CLEAN), extra={"vllm:num_preemptions_total": -3.0})
    assert "PREEMPTED" not in codes(cell)


@pytest.mark.parametrize(("rise", "said"), [(0.09, "is not told"), (0.02, "did not rise with it")])
def test_nine_per_cent_of_twelve_are_not_nothing(rise: float, said: str) -> None:
    seen = slower_cpu.Change(api_server=rise, client=rise, rest=None, rest_error=None, clock=None)
    assert said in slower_cpu.sentence(seen)


@pytest.mark.parametrize(("kept_s", "bound"), [(60.0, True), (2.0, False)])
def test_a_card_seen_at_its_end_only_is_not_idle(kept_s: float, bound: bool) -> None:
    cell = context(build_cell(CLEAN))
    assert cell.span is not None
    t0, t1 = cell.span.t0, cell.span.t1
    cell = accounts(cell, 0.1, 0.1, {(CPU_RUN, ENGINE): cell.span.seconds})
    seen = samples(Card(utilisation=0.1), t0 - 5, t1 + 2)
    record = replace(cell.start.record, telemetry=seen[seen["t"] > t1 - kept_s])
    start = replace(cell.start, record=record)
    cell = replace(cell, start=start, setup=replace(cell.setup, facts={"gpu": H200}))
    assert (cpu_bound.check(cell) is not None) == bound


def test_another_graph_mode_is_told() -> None:
    both = EngineTraits(graph_tokens=512, graph_mode="FULL_AND_PIECEWISE")
    pieces = EngineTraits(graph_tokens=512, graph_mode="PIECEWISE")
    none = EngineTraits(graphs_off=True)
    silent = EngineTraits()
    (told,) = differences(pieces, both)
    assert told == "CUDA graph mode PIECEWISE, the baseline's FULL_AND_PIECEWISE"
    (told,) = differences(none, both)
    assert told == "CUDA graph mode NONE, the baseline's FULL_AND_PIECEWISE"
    assert not [*differences(silent, both), *differences(both, silent), *differences(none, silent)]


@pytest.mark.parametrize("sizes", ["[1, 2, ]", "[, ]"])
def test_an_odd_line_of_a_log_stops_nothing(sizes: str) -> None:
    text = f"compilation_config={{'cudagraph_capture_sizes': {sizes}}} KV cache size: , tokens"
    found = traits.read([LogLine(0.0, "O", text)])
    assert found.graph_tokens == (2 if "2" in sizes else None)
    assert found.kv_cache_tokens is None


def test_lost_chunks_beside_outputs_that_repeat_stop_nothing(tmp_path: Path) -> None:
    run = three_rounds(tmp_path / "r")
    found = []
    for start in run.starts:
        cells = []
        for cell in start.cells:
            chunks = cell.chunks.copy()
            if start.variant == "x":
                chunks = chunks.iloc[:0]
            else:
                chunks["token_ids"] = [[7] * int(n) for n in chunks["tokens"]]
            cells.append(replace(cell, chunks=chunks))
        found.append(replace(start, cells=tuple(cells)))
    summary = summarise(replace(run, starts=tuple(found)))
    assert {c.verdict for c in summary.cells if c.variant == "x"} == {"INVALID"}


def test_a_warm_up_without_a_first_token_stops_nothing() -> None:
    warm = [build_cell(replace(CLEAN, requests=1, ttft_s=s), load="warmup", repeat=r).record
            for r, s in enumerate((2.0, 0.1))]  # fmt: skip
    assert "FIRST_CALL" in codes(context(build_cell(CLEAN), warmup=tuple(warm), first=True))
    lost = replace(warm[0], requests=warm[0].requests.assign(t_first=float("nan")))
    cell = context(build_cell(CLEAN), warmup=(lost, warm[1]), first=True)
    assert "FIRST_CALL" not in codes(cell)
