"""Compares specgauge's load with ``vllm bench serve``: one server, the same prompts, pairs.

One vLLM server without prefix cache gets the same prompts from both clients in turn, in
alternating order.  Per pair: ours / theirs, for output throughput and mean TPOT.  The clients agree
when the 90 % interval of the ratio (Student's t on the pairs' logarithms) lies within 3 %.

Every pair counts; what other processes used of the machine meanwhile is recorded beside it.

    python benchmarks/against_vllm_bench.py --load c1  --out benchmarks/results/bench-c1.json
    python benchmarks/against_vllm_bench.py --load c16 --out benchmarks/results/bench-c16.json

Needs what ``make setup`` makes.  Takes about 8 minutes a load on 2 cores; keep the machine quiet.
Exit code 0: they agree; 1: they do not (or something could not be run).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from scipy import stats

from specgauge.config.prompts import Prompt, load_prompts
from specgauge.config.workload import Workload
from specgauge.embedded.model import ensure
from specgauge.load.cell import CellPlan, PlannedRequest, run_load
from specgauge.record.atomic import write_json
from specgauge.record.layout import CellPaths, StartPaths
from specgauge.run.client import Client
from specgauge.run.machine import machine_facts
from specgauge.serve.local import LocalServer
from specgauge.serve.protocol import ServerSpec

ROOT = Path(__file__).resolve().parent.parent
LOADS = {"c1": (1, 4, 128), "c16": (16, 16, 256)}
"""Name: (concurrency, requests, output tokens of each).

At c16 the outputs are longer because our sixteen requests arrive within 1 ms, theirs within 10: the
engine's first step then takes more of ours, which moves time from TTFT to TPOT.  That difference
between the clients' arrivals is real; the longer the output, the less it weighs in TPOT.
"""
MARGIN = 0.03
CONFIDENCE = 0.90
MODEL = "benchmark"
PORT = 8219
SERVER_ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--load", choices=LOADS, required=True)
    parser.add_argument("--out", type=Path, required=True, help="JSON with every pair")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--tokens", type=int, help="output tokens of each request")
    parser.add_argument("--vllm", type=Path, default=ROOT / ".venv-vllm" / "bin" / "vllm")
    parser.add_argument("--model", type=Path, help="model folder; default: the embedded model")
    parser.add_argument(
        "--prompts", type=Path, default=ROOT / "config" / "workloads" / "builtin.jsonl"
    )
    parser.add_argument("--port", type=int, default=PORT)
    return parser.parse_args()


class Elsewhere:
    """CPU time of the whole machine less that of this process, its children and its server."""

    def __init__(self) -> None:
        self._begin, self._used = time.monotonic(), self._now()

    def _now(self) -> float:
        machine = psutil.cpu_times()
        busy = machine.user + machine.nice + machine.system
        me = psutil.Process()
        ours = sum(me.cpu_times()[:4])  # children that have ended included
        for child in me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                ours += sum(child.cpu_times()[:4])
        return busy - ours

    def share(self) -> float:
        """Of the machine's CPU time since the beginning; 0..1."""
        passed = (time.monotonic() - self._begin) * (psutil.cpu_count() or 1)
        return max(0.0, self._now() - self._used) / passed


class Pairing:
    """Both clients against one running server, on the same texts."""

    def __init__(
        self, options: argparse.Namespace, model: Path, prompts: tuple[Prompt, ...], folder: Path
    ) -> None:
        self.concurrency = LOADS[options.load][0]
        self._options, self._model, self._prompts = options, model, prompts
        self._folder = folder
        self._url = f"http://127.0.0.1:{options.port}"
        client = Client(self._url, MODEL)
        self.version = client.version()
        self._ids = [client.tokenize(p, False, {}, options.tokens) for p in prompts]
        client.close()
        self._dataset = folder / "prompts.jsonl"
        self._dataset.write_text(
            "".join(json.dumps({"prompt": prompt.text}) + "\n" for prompt in prompts)
        )

    def ours(self) -> dict[str, float]:
        """One run of ours: DESIGN's definitions, from the raw records."""
        plan = CellPlan(
            url=self._url,
            model=MODEL,
            concurrency=self.concurrency,
            rate=None,
            workers=0,
            requests=tuple(
                PlannedRequest(i, p.id, p.category, ids, self._options.tokens, 0)
                for i, (p, ids) in enumerate(zip(self._prompts, self._ids, strict=True))
            ),
            ignore_eos=True,
            temperature=0.0,
            extra_body={},
            request_timeout_s=600.0,
        )
        paths = CellPaths(self._folder / "ours")
        result = run_load(plan, paths, on_progress=lambda _: None, should_stop=lambda: None)
        requests = pq.read_table(paths.requests).to_pylist()
        chunks = pq.read_table(paths.chunks).to_pylist()
        if result.error or any(row["state"] != "ok" for row in requests):
            raise RuntimeError(f"our load failed: {result.error or requests}")
        first = {row["request"]: row["tokens"] for row in chunks if row["seq"] == 0}
        tokens = sum(row["output_tokens"] for row in requests)
        tpot = [
            (row["t_last"] - row["t_first"]) / (row["output_tokens"] - first[row["index"]])
            for row in requests
        ]
        span = max(row["t_last"] for row in requests) - min(row["t_send"] for row in requests)
        delays = [row["t_user"] - row["t"] for row in chunks]
        return {
            "output_tok_s": tokens / span,
            "tpot_ms": statistics.mean(tpot) * 1e3,
            "ttft_ms": statistics.mean(row["t_first"] - row["t_send"] for row in requests) * 1e3,
            "input_tokens": sum(row["usage_prompt_tokens"] for row in requests),
            "output_tokens": tokens,
            "read_delay_p50_ms": statistics.median(delays) * 1e3,
            "read_delay_max_ms": max(delays) * 1e3,
            "shared_stamps": sum(row["shared_read"] > 1 for row in chunks) / len(chunks),
        }

    def theirs(self) -> dict[str, float]:
        """One run of ``vllm bench serve``, as it reports itself."""
        words = {
            "--backend": "openai",
            "--base-url": self._url,
            "--endpoint": "/v1/completions",
            "--model": MODEL,
            "--tokenizer": self._model,
            "--dataset-name": "custom",
            "--dataset-path": self._dataset,
            "--custom-output-len": self._options.tokens,
            "--num-prompts": len(self._prompts),
            "--max-concurrency": self.concurrency,
            "--temperature": 0,
            "--result-dir": self._folder,
            "--result-filename": "theirs.json",
        }
        flags = ("--skip-chat-template", "--disable-shuffle", "--ignore-eos", "--save-result")
        command = [str(self._options.vllm), "bench", "serve", *flags, "--disable-tqdm"]
        for name, value in words.items():
            command += [name, str(value)]
        ran = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, **SERVER_ENV},
        )
        report = self._folder / "theirs.json"
        if ran.returncode != 0 or not report.is_file():
            raise RuntimeError(f"vllm bench serve failed:\n{ran.stdout[-3000:]}")
        result = json.loads(report.read_text())
        report.unlink()
        if result["completed"] != len(self._prompts):
            raise RuntimeError(f"vllm bench serve completed {result['completed']} requests")
        return {
            "output_tok_s": result["output_throughput"],
            "tpot_ms": result["mean_tpot_ms"],
            "ttft_ms": result["mean_ttft_ms"],
            "input_tokens": result["total_input_tokens"],
            "output_tokens": result["total_output_tokens"],
        }


def interval(ratios: list[float]) -> dict[str, float]:
    """Geometric mean of the ratios and its t interval on the logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    half = 0.0
    if len(logs) > 1:
        factor = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1))
        half = factor * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "ratio": math.exp(mean),
        "low": math.exp(mean - half),
        "high": math.exp(mean + half),
    }


def summary(pairs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Ratio ours / theirs and its interval, by figure."""
    found: dict[str, dict[str, Any]] = {}
    for figure in ("output_tok_s", "tpot_ms", "ttft_ms"):
        values = interval([pair["ours"][figure] / pair["theirs"][figure] for pair in pairs])
        judged = figure != "ttft_ms"  # theirs carries the client's own delay: for information
        within = values["low"] >= 1 - MARGIN and values["high"] <= 1 + MARGIN
        found[figure] = {**values, "within_3_percent": within if judged else None}
    return found


def table(load: str, pairs: list[dict[str, Any]], figures: dict[str, dict[str, Any]]) -> str:
    """For the terminal and the README (Markdown)."""
    lines = [
        f"| {load}, {len(pairs)} pairs | ours | vllm bench serve | ratio | 90 % interval |",
        "|---|---|---|---|---|",
    ]
    for figure, found in figures.items():
        ours, theirs = (
            statistics.mean(pair[side][figure] for pair in pairs) for side in ("ours", "theirs")
        )
        lines.append(
            f"| {figure} | {ours:.2f} | {theirs:.2f} | {found['ratio']:.4f} "
            f"| {found['low']:.4f} to {found['high']:.4f} |"
        )
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    concurrency, requests, tokens = LOADS[options.load]
    options.tokens = options.tokens or tokens
    model = options.model or ensure("smollm2-135m", ROOT)
    workload = Workload(name="benchmark", path=str(options.prompts.absolute()))
    prompts = load_prompts(workload, ROOT).first(requests, options.load)
    with tempfile.TemporaryDirectory(prefix="specgauge-benchmark-") as name:
        folder = Path(name)
        server = LocalServer(_server_spec(options, model, folder))
        try:
            server.start()
            print("starting vLLM …", flush=True)
            server.wait_ready(lambda _line: None)
            pairing = Pairing(options, model, prompts, folder)
            print("warming up …", flush=True)
            pairing.ours()
            pairs: list[dict[str, Any]] = []
            for k in range(options.pairs):
                pairs.append(measure_pair(pairing, k))
                document = {
                    "schema": "specgauge.benchmark/1",
                    "load": options.load,
                    "concurrency": concurrency,
                    "requests": requests,
                    "output_tokens_each": options.tokens,
                    "model": model.name,
                    "vllm": pairing.version,
                    "prompts": options.prompts.name,
                    "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "machine": machine_facts(),
                    "pairs": pairs,
                    "summary": summary(pairs),
                }
                write_json(options.out, document)
        finally:
            server.stop()
    figures = summary(pairs)
    print(table(options.load, pairs, figures))
    agree = all(found["within_3_percent"] in (True, None) for found in figures.values())
    print("they agree within 3 %" if agree else "they do NOT agree within 3 %")
    return 0 if agree else 1


def _server_spec(options: argparse.Namespace, model: Path, folder: Path) -> ServerSpec:
    return ServerSpec(
        id="benchmark",
        argv=[
            *(str(options.vllm), "serve", str(model), "--served-model-name", MODEL),
            *("--host", "127.0.0.1", "--port", str(options.port), "--max-model-len", "2048"),
            *("--enforce-eager", "--no-enable-prefix-caching"),
        ],
        env=SERVER_ENV,
        host="127.0.0.1",
        port=options.port,
        paths=StartPaths(folder / "server"),
        cwd=str(folder),
        ready_timeout_s=300.0,
        stop_grace_s=20.0,
    )


def measure_pair(pairing: Pairing, k: int) -> dict[str, Any]:
    """Both clients once; the even pairs begin with ours."""
    order = ("ours", "theirs") if k % 2 == 0 else ("theirs", "ours")
    pair: dict[str, Any] = {"first": order[0]}
    elsewhere = Elsewhere()
    for side in order:
        pair[side] = getattr(pairing, side)()
    pair["elsewhere"] = round(elsewhere.share(), 4)
    for count in ("input_tokens", "output_tokens"):
        if pair["ours"][count] != pair["theirs"][count]:
            raise RuntimeError(f"the two clients did not get the same work: {count}: {pair}")
    print(
        f"pair {k + 1}: ours {pair['ours']['output_tok_s']:.2f} tok/s, "
        f"{pair['ours']['tpot_ms']:.2f} ms; theirs {pair['theirs']['output_tok_s']:.2f} tok/s, "
        f"{pair['theirs']['tpot_ms']:.2f} ms; elsewhere {pair['elsewhere']:.1%}",
        flush=True,
    )
    return pair


if __name__ == "__main__":
    sys.exit(main())
