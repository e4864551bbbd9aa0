"""The captured hour on an H200 as a run: three servers, c1 once and c16 twice on each."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from bench_json import h200

from specgauge.analyze.records import (
    CellRecord,
    LoadSetup,
    LogLine,
    RunRecord,
    RunSetup,
    StartRecord,
    VariantSetup,
)
from specgauge.record.documents import CellDocument, ClockOffset, Outcome
from specgauge.scrape.series import Scrape, changes

BASE = 1_795_966_000.0  # epoch seconds that become 0
CONFIGS = {
    "vanilla": None,
    "eagle3-synthetic": {"method": "eagle3", "num_speculative_tokens": 3},
    "ngram-dummy-weights": {"method": "ngram", "num_speculative_tokens": 6},
}
CELLS = (("c1", "c1", 0, 1), ("c16a", "c16", 0, 16), ("c16b", "c16", 1, 16))
_STAMP = re.compile(r" (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) ")


def captured_run(samples: Path) -> RunRecord:
    """All three, vanilla as the baseline."""
    folder = samples / "0.26.0-h200"
    variants = tuple(VariantSetup(name, config) for name, config in CONFIGS.items())
    setup = RunSetup("h200", "captured", "Qwen3-32B, dummy weights", "vanilla", variants,
                     (LoadSetup("c1", 4, 1), LoadSetup("c16", 16, 16)), repeats=2)  # fmt: skip
    return RunRecord(setup, tuple(_start(folder / name, name) for name in CONFIGS))


def _start(folder: Path, variant: str) -> StartRecord:
    scrapes = []
    cells = []
    for file, load, repeat, concurrency in CELLS:
        data = json.loads(gzip.decompress((folder / f"{file}.json.gz").read_bytes()))
        t0 = float(data["summary"]["epoch"]) - BASE
        requests, chunks, _ = h200(folder / f"{file}.json.gz", t0)
        told = [r["usage"]["prompt_tokens"] for r in data["requests"]]
        requests["prompt_tokens"] = pd.array(told, dtype="Int32")
        end = float(requests["t_last"].max())
        text = (folder / f"{file}.after.prom").read_text()
        if not scrapes:
            scrapes.append(_scrape(t0 - 0.12, re.sub(r" \S+$", " 0.0", text, flags=re.MULTILINE)))
        scrapes += [_scrape(end + 0.08, text)]
        clock = ClockOffset(begin=BASE, end=BASE)
        document = CellDocument(
            variant=variant, start=0, load=load, repeat=repeat, concurrency=concurrency,
            state="complete", planned_requests=len(requests), t_begin=t0 - 0.1, t_go=t0,
            t_end=end + 0.02, clock=clock, output_tokens=512, ignore_eos=True, temperature=0.0,
            prefix_cache="keep",
        )  # fmt: skip
        cells.append(CellRecord(variant, 0, load, repeat, document, requests, chunks))
    outcome = Outcome(variant=variant, start=0, round=0, state="complete", vllm_version="0.26.0")
    return StartRecord(
        variant, 0, None, outcome, _log(folder / "server.log"), changes(scrapes).to_pandas(),
        tuple(cells),
    )  # fmt: skip


def _scrape(t: float, text: str) -> Scrape:
    return Scrape(t, 0.004, lambda: text)


def _log(path: Path) -> tuple[LogLine, ...]:
    """Lines by their own stamps: whole seconds, so in the middle of theirs."""
    found, t = [], 0.0
    for text in path.read_text(errors="replace").splitlines():
        if stamp := _STAMP.search(text):
            month, day, hour, minute, second = (int(x) for x in stamp.groups())
            moment = datetime(2026, month, day, hour, minute, second, tzinfo=UTC)
            t = moment.timestamp() - BASE + 0.5
        found.append(LogLine(t, "O", text))
    return tuple(found)
