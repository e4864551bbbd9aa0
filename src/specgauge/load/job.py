"""What passes between ``run_load`` and its Locust processes: a job file, result files, lines."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from specgauge.load.plan import CellPlan, plan_from_json

JOB = "SPECGAUGE_LOAD_JOB"
"""Environment variable: path of the plan's JSON; the results go beside it."""

WORKER = "SPECGAUGE_LOAD_WORKER"
"""Environment variable: 0-based number of this worker; unset in a master or a lone process."""

MARK = "@specgauge "
"""Begins the lines on stdout that are meant for ``run_load``; the rest is Locust's own."""


@dataclass(frozen=True)
class Parts:
    """Files in which one process leaves what it recorded."""

    folder: Path
    worker: int

    @property
    def requests(self) -> Path:
        """Parquet, schema.REQUESTS."""
        return self.folder / f"requests-{self.worker}.parquet"

    @property
    def chunks(self) -> Path:
        """Parquet, schema.CHUNKS."""
        return self.folder / f"chunks-{self.worker}.parquet"

    @property
    def client(self) -> Path:
        """JSON: ``{"client": ClientSelf, "t_go": …, "t_end": …, "fault": …}``; written last."""
        return self.folder / f"client-{self.worker}.json"


def write_plan(folder: Path, plan: CellPlan) -> Path:
    """Write the job file into ``folder``; returns its path."""
    path = folder / "plan.json"
    path.write_text(json.dumps(plan.as_json()))
    return path


def from_environment() -> tuple[CellPlan, Path]:
    """The plan and the folder for the results, in a Locust process started by ``run_load``."""
    path = Path(os.environ[JOB])
    return plan_from_json(json.loads(path.read_text())), path.parent
