"""Plants on the real clock: the whole command line's way, through HTTP and Locust.

One run whose variants are the plants: each server is a simulator with its own truth, and writes
down what it really did.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from specgauge.analyze.document import Cell
from specgauge.analyze.summary import summarise
from specgauge.calibrate.judge import Planted
from specgauge.calibrate.plants import Plant
from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.record.reader import read_run
from specgauge.run.executor import Request, execute
from specgauge.simulate.truth_log import read_truth_log


def run(plants: Sequence[Plant], console: Console) -> list[tuple[Plant, Planted, Cell]]:
    """Measure every plant; all of them have the same load.  One that failed is left out.

    Raises:
        EnvironmentFault: nothing can be measured here.
        KeyboardInterrupt: interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="specgauge-calibrate-") as folder:
        project = _project(Path(folder), plants)
        names = [_name(plant) for plant in plants]
        outcome = execute(resolve(project, "calibrate", names), project, Request(names), console)
        if outcome.interrupted:
            raise KeyboardInterrupt
        summary = summarise(read_run(outcome.paths.folder))
        load = f"c{plants[0].concurrency}"
        whole = [c for c in summary.cells if c.load == load and not c.observed.failed]
        cells = {c.variant: c for c in whole}
        return [
            (plant, truth_of(_log(Path(folder), plant), plant.requests), cells[_name(plant)])
            for plant in plants
            if _name(plant) in cells
        ]


def _name(plant: Plant) -> str:
    return plant.name.replace(" ", "-")


def _log(folder: Path, plant: Plant) -> Path:
    return folder / f"{_name(plant)}.truth.jsonl"


def _project(root: Path, plants: Sequence[Plant]) -> Project:
    """A project folder with one experiment."""

    def write(kind: str, name: str, value: dict[str, Any]) -> None:
        path = root / "config" / kind / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"name": name, **value}), encoding="utf-8")

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first = plants[0]
    for plant in plants:
        env = {
            "SPECGAUGE_SIM_TRUTH": json.dumps(plant.truth),
            "SPECGAUGE_SIM_TRUTH_OUT": str(_log(root, plant)),
        }
        config = {"method": "ngram", "num_speculative_tokens": plant.k, "prompt_lookup_min": 2,
                  "prompt_lookup_max": 4}  # fmt: skip
        speculation = {"speculative_config": config} if plant.k else {}
        write("variants", _name(plant), {"server_env": env, **speculation})
    write("models", "simulated", {"path": "simulated"})
    write("workloads", "planted", {"path": "planted.jsonl"})
    prompts = [{"id": f"p{i}", "prompt": f"question {i} " * 12} for i in range(first.requests)]
    (root / "config" / "workloads" / "planted.jsonl").write_text(
        "".join(json.dumps(p) + "\n" for p in prompts), encoding="utf-8"
    )
    write("experiments", "calibrate", {
        "model": "simulated", "variants": [_name(p) for p in plants], "baseline": _name(first),
        "loads": [{"concurrency": first.concurrency, "requests": first.requests}],
        "workload": "planted", "output_tokens": first.output_tokens, "ignore_eos": True,
        "settle_s": 0.5,
        "server": {"command": [sys.executable, "-m", "specgauge.simulate"], "port": port,
                   "stop_grace_s": 3},
    })  # fmt: skip
    return Project(root)


def truth_of(log: Path, requests: int) -> Planted:
    """From the server's own stamps, over the first ``requests`` that arrived: the cell's."""
    lines = read_truth_log(log)
    arrived = {x["request"]: x["t"] for x in lines if x["kind"] == "request"}
    mine = {n: t for n, t in arrived.items() if n <= requests}
    chunks: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        if line["kind"] == "chunk" and line["request"] in mine:
            chunks.setdefault(line["request"], []).append(line)
    begin, end = min(mine.values()), max(parts[-1]["t"] for parts in chunks.values())
    ttft = [chunks[n][0]["t"] - t for n, t in mine.items()]
    tpot = [
        (parts[-1]["t"] - parts[0]["t"]) / sum(p["tokens"] for p in parts[1:])
        for parts in chunks.values()
    ]
    steps = [x for x in lines if x["kind"] == "step" and begin <= x["t1"] <= end + 1e-3]
    drafts = sum(x["drafts"] for x in steps)
    decode = sum(len(parts) - 1 for parts in chunks.values())
    frozen = [x for x in lines if x["kind"] == "freeze" and begin <= x["t0"] <= end]
    tokens = sum(p["tokens"] for parts in chunks.values() for p in parts)
    return Planted(
        output_tok_s=tokens / (end - begin),
        tpot_ms=1000 * sum(tpot) / len(tpot),
        ttft_ms=1000 * sum(ttft) / len(ttft),
        acceptance_length=1 + sum(x["accepted"] for x in steps) / drafts if drafts else None,
        draft_coverage=drafts / decode if drafts else None,
        frozen_s=sum(x["t1"] - x["t0"] for x in frozen),
    )
