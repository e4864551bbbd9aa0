"""Plants on a virtual clock: identical records, no waiting."""

from __future__ import annotations

import random

from specgauge.analyze.document import Cell
from specgauge.analyze.records import LoadSetup, RunRecord, RunSetup, VariantSetup
from specgauge.analyze.summary import summarise
from specgauge.calibrate.judge import Planted
from specgauge.calibrate.plants import Plant
from specgauge.calibrate.virtual_start import VirtualStart
from specgauge.simulate.truth import Truth
from specgauge.simulate.virtual import VirtualStep

VARIANT = "planted"
LOAD = "planted"
SINGLE = 2
"""Requests sent singly before, as a run's other cells: they show the prefill rate."""


def run(plant: Plant) -> tuple[Planted, Cell]:
    """What the plant's server did, and the analysis of its cell."""
    document = dict(plant.truth)
    freezes = []
    for freeze in document.get("freezes", []):
        moved = dict(freeze)
        if "at_request" in moved:
            moved["at_request"] += SINGLE
        if "after_tokens" in moved:
            moved["after_tokens"] += SINGLE * plant.output_tokens
        freezes.append(moved)
    truth = Truth.model_validate({**document, "freezes": freezes})
    server = VirtualStart(truth, plant.section, VARIANT)
    dice = random.Random(plant.name)
    prompts = [
        [dice.randrange(20, 30_000) for _ in range(plant.prompt_tokens)]
        for _ in range(plant.requests)
    ]
    others = [
        [dice.randrange(20, 30_000) for _ in range(plant.prompt_tokens)] for _ in range(SINGLE)
    ]
    server.cell("c1", others, 1, plant.output_tokens)
    server.cell(LOAD, prompts, plant.concurrency, plant.output_tokens)
    config = {"method": "ngram", "num_speculative_tokens": plant.k} if plant.k else None
    setup = RunSetup("calibrate", plant.name, "simulated", "none", (VariantSetup(VARIANT, config),),
                     (LoadSetup("c1", SINGLE, 1),
                      LoadSetup(LOAD, plant.requests, plant.concurrency)))  # fmt: skip
    planted = truth_of(server.steps)
    cell = _analysed(setup, server)
    if cell.derived is not None:  # as a run does: once more, with the prefix cache put back
        server.reset()
        server.read(others)
        server.cell(
            LOAD, prompts, plant.concurrency, plant.output_tokens, confirms=True, reset=True
        )
        cell = _analysed(setup, server)
    return planted, cell


def _analysed(setup: RunSetup, server: VirtualStart) -> Cell:
    summary = summarise(RunRecord(setup, (server.record(),)))
    return next(cell for cell in summary.cells if cell.load == LOAD)


def truth_of(steps: list[VirtualStep]) -> Planted:
    """From what the engine itself did in the cell's steps."""
    requests = list({id(e.request): e.request for s in steps for e in s.emissions}.values())
    firsts = {id(e.request): len(e.token_ids) for s in steps for e in s.emissions if e.first}
    decode = [e for s in steps for e in s.emissions if not e.first]
    drafts = [e.draft for s in steps for e in s.emissions if e.draft]
    begin, end = min(r.t_arrival for r in requests), steps[-1].t_end
    ttft, tpot = [], []
    for r in requests:
        assert r.t_first is not None
        assert r.t_last is not None
        ttft.append(r.t_first - r.t_arrival)
        tpot.append((r.t_last - r.t_first) / (r.emitted - firsts[id(r)]))
    accepted = sum(d.accepted for d in drafts)
    return Planted(
        output_tok_s=sum(r.emitted for r in requests) / (end - begin),
        tpot_ms=1000 * sum(tpot) / len(tpot),
        ttft_ms=1000 * sum(ttft) / len(ttft),
        acceptance_length=1 + accepted / len(drafts) if drafts else None,
        draft_coverage=len(drafts) / len(decode) if drafts else None,
        frozen_s=sum(s.step.frozen_s for s in steps),
    )
