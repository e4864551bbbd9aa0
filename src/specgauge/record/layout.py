"""Paths inside a results folder: the only place that spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

WARMUP = "warmup"
"""Load name under which a start's warm-up requests are recorded (never a measured cell)."""

FIRST_CALL = "first-call"
"""Load name of a start without warm-up: its very first request repeated after the last cell."""

CONFIRM = "confirm-"
"""Load name, followed by a frozen cell's, of that cell's repeat on the same server."""

PREFILL = "prefill"
"""Load name of the prompts read before such a repeat, to put the prefix cache back."""


def is_measured(load: str) -> bool:
    """Whether ``load`` names cells of the experiment."""
    return load not in (WARMUP, FIRST_CALL, PREFILL) and not load.startswith(CONFIRM)


@dataclass(frozen=True)
class CellPaths:
    """Files of one cell: ``<start>/<load>/repeat-<r>/``."""

    folder: Path

    @property
    def cell(self) -> Path:
        """``cell.json``: state, times, clocks, client; written last, so its presence = recorded."""
        return self.folder / "cell.json"

    @property
    def requests(self) -> Path:
        """One row a request (schema.REQUESTS)."""
        return self.folder / "requests.parquet"

    @property
    def chunks(self) -> Path:
        """One row a chunk with a token (schema.CHUNKS)."""
        return self.folder / "chunks.parquet"

    @property
    def locust_log(self) -> Path:
        """What Locust printed."""
        return self.folder / "locust.log"


@dataclass(frozen=True)
class StartPaths:
    """Files of one server start: ``<variant>/start-<k>/``."""

    folder: Path

    @property
    def launch(self) -> Path:
        """``launch.json``: written by the process runner; on a GPU completed after its end."""
        return self.folder / "launch.json"

    @property
    def outcome(self) -> Path:
        """``outcome.json``: written by the harness when the start has ended."""
        return self.folder / "outcome.json"

    @property
    def server_log(self) -> Path:
        """Every stdout and stderr line, stamped on arrival."""
        return self.folder / "server.log"

    @property
    def metrics(self) -> Path:
        """Scrapes of ``/metrics`` (schema.METRICS)."""
        return self.folder / "metrics.parquet"

    @property
    def telemetry(self) -> Path:
        """What the GPU told of itself (schema.TELEMETRY); only of a start on a GPU."""
        return self.folder / "telemetry.parquet"

    @property
    def margins(self) -> Path:
        """``margins.json``: how sure the model was where its outputs left the baseline's."""
        return self.folder / "margins.json"

    def cell(self, load: str, repeat: int) -> CellPaths:
        """The cell of ``load`` and ``repeat`` (0-based)."""
        return CellPaths(self.folder / load / f"repeat-{repeat}")

    def cells(self) -> list[tuple[str, int, CellPaths]]:
        """(load, repeat, paths) of every cell folder present, by load then repeat."""
        found = []
        for folder in self.folder.glob("*/repeat-*"):
            if match := re.fullmatch(r"repeat-(\d+)", folder.name):
                found.append((folder.parent.name, int(match[1]), CellPaths(folder)))
        return sorted(found, key=lambda item: item[:2])


@dataclass(frozen=True)
class RunPaths:
    """Files of one run: ``results/<experiment>/<run-id>/``."""

    folder: Path

    @property
    def manifest(self) -> Path:
        """``manifest.json``: what runs, with which versions, on what."""
        return self.folder / "manifest.json"

    @property
    def prompts(self) -> Path:
        """Prompts as sent, with token ids (schema.PROMPTS)."""
        return self.folder / "prompts.parquet"

    @property
    def lock(self) -> Path:
        """File lock held while a command writes into the run."""
        return self.folder / ".lock"

    @property
    def analysis(self) -> Path:
        """Everything derived; may be deleted and made again."""
        return self.folder / "analysis"

    @property
    def summary(self) -> Path:
        """``analysis/summary.json``."""
        return self.analysis / "summary.json"

    def start(self, variant: str, k: int) -> StartPaths:
        """Start ``k`` (0-based) of ``variant``."""
        return StartPaths(self.folder / variant / f"start-{k}")

    def starts(self) -> list[tuple[str, int, StartPaths]]:
        """(variant, k, paths) of every start folder present, by variant then k."""
        found = []
        for folder in self.folder.glob("*/start-*"):
            if match := re.fullmatch(r"start-(\d+)", folder.name):
                found.append((folder.parent.name, int(match[1]), StartPaths(folder)))
        return sorted(found, key=lambda item: item[:2])
