"""Where the project's folders are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import UsageError


@dataclass(frozen=True)
class Project:
    """A folder that holds ``config/`` (and ``results/``)."""

    root: Path

    def config(self, kind: str) -> Path:
        """``config/<kind>``: experiments, variants, models, workloads."""
        return self.root / "config" / kind

    @property
    def results(self) -> Path:
        """``results/``, or ``$SPECGAUGE_RESULTS``."""
        return Path(os.environ.get("SPECGAUGE_RESULTS") or self.root / "results").absolute()


def cache_folder() -> Path:
    """Downloads and converted models: ``$SPECGAUGE_CACHE``, else the user's cache folder."""
    if given := os.environ.get("SPECGAUGE_CACHE"):
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "specgauge"


def find_project(start: Path | None = None) -> Project:
    """The nearest folder at or above ``start`` (default: here) with ``config/experiments``.

    Falls back to the checkout that this package was installed from.

    Raises:
        UsageError: there is none.
    """
    here = (start or Path.cwd()).absolute()
    checkout = Path(__file__).resolve().parents[3]
    for folder in (here, *here.parents, checkout):
        if (folder / "config" / "experiments").is_dir():
            return Project(folder)
    raise UsageError(
        f"no folder with config/experiments at or above {here}: run specgauge inside its checkout"
    )
