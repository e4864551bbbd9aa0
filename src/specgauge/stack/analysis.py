"""What the analysis container runs: the report of the run that the load generator wrote."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console

from specgauge.analyze.summary import exit_code, summarise
from specgauge.config.project import find_project
from specgauge.config.references import published
from specgauge.errors import ExitCode, SpecgaugeError, UsageError
from specgauge.record.layout import RunPaths
from specgauge.record.reader import read_run
from specgauge.record.runs import find_run
from specgauge.report.terminal import headline
from specgauge.report.write import write_report
from specgauge.serve.control import FOLDER, Control


def main() -> int:
    """Exit code: as ``specgauge report``.  ``RUN`` names a run; ``STRICT`` non-empty: --strict."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    results = find_project().results
    try:
        paths = which(results, os.environ.get("RUN"), Path(os.environ[FOLDER]))
        record = read_run(paths.folder)
        summary = summarise(record, published(find_project()))
        write_report(record, summary, paths)
    except NothingMeasured as nothing:
        console.print(f"specgauge: {nothing}", style="red", markup=False, soft_wrap=True)
        return nothing.code
    except SpecgaugeError as error:
        console.print(f"specgauge: {error}", style="red", markup=False, soft_wrap=True)
        return int(error.exit_code)
    console.print(headline(summary))
    report = paths.analysis / "report.md"
    where = f"Report: results/{report.relative_to(results)}"
    console.print(where, markup=False, highlight=False, soft_wrap=True)
    code = int(exit_code(summary, bool(os.environ.get("STRICT"))))
    console.print(f"Exit code {code}: {meaning(code)}", markup=False, highlight=False)
    return code


class NothingMeasured(Exception):
    """The load generator ended without a run; ``code`` is its exit code."""

    def __init__(self, variant: str, error: str, code: int) -> None:
        super().__init__(f"nothing to analyse, the load generator of {variant!r} failed: {error}")
        self.code = code


def which(results: Path, run: str | None, control: Path) -> RunPaths:
    """The run called ``run``, else the one of the newest load generator.

    A run id that this load generator was given, and left for a run begun anew, means the latter;
    ``experiment/run-id`` always means itself.

    Raises:
        UsageError: there is none.
        NothingMeasured: that load generator failed; an older run must not pass for its own.
    """
    found = [(Control(folder), folder.name) for folder in control.glob("*") if folder.is_dir()]
    told = [(result, name) for c, name in found if (result := c.result()) is not None]
    if not told and not run:
        raise UsageError("no load generator has run here yet; RUN= names a run to analyse")
    newest, variant = max(told, key=lambda item: float(item[0]["at"]), default=({}, ""))
    if run and newest.get("instead_of") != run:
        return find_run(results, run)
    if newest["run"] is None:
        raise NothingMeasured(variant, str(newest["error"]), int(newest["code"]) or 4)
    return find_run(results, str(newest["run"]))


def meaning(code: int) -> str:
    """An exit code in words."""
    words = {
        ExitCode.MEASURED: "measured, no INVALID cell",
        ExitCode.INVALID: "at least one cell is INVALID",
        ExitCode.INCOMPLETE: "not everything planned was measured",
        ExitCode.SUSPECT: "at least one cell is SUSPECT (strict)",
    }
    return next((text for known, text in words.items() if known == code), "see above")


if __name__ == "__main__":
    sys.exit(main())
