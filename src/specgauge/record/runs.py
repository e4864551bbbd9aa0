"""Opening, finding and listing runs under ``results/``."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout
from pydantic import ValidationError

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.plan import StartPlan
from specgauge.record.atomic import write_fault
from specgauge.record.compare import PER_COMMAND, differs, machine_differs, tooling
from specgauge.record.documents import Outcome
from specgauge.record.layout import RunPaths
from specgauge.record.manifest import Manifest, read_manifest, write_manifest

_CHOOSE_S = 30.0
"""To wait while another command chooses its run: it reads some manifests, no more."""


@dataclass(frozen=True)
class OpenRun:
    """A run this process may write into while it holds the lock."""

    paths: RunPaths
    manifest: Manifest
    resumed: bool
    notes: tuple[str, ...] = ()
    """For people: why an older run is not gone on with, what is not as it was in this one."""


def outcome_of(path: Path) -> Outcome | None:
    """The outcome in ``path``, or None: a start without one is partial."""
    try:
        return Outcome.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValidationError):
        return None


def completed(paths: RunPaths) -> dict[StartPlan, int]:
    """Planned starts that are measured, with the number k of the start that counts."""
    done: dict[StartPlan, int] = {}
    for variant, k, start in paths.starts():
        outcome = outcome_of(start.outcome)
        if outcome is not None and outcome.state == "complete":
            done[StartPlan(variant, outcome.round, outcome.role)] = k
    return done


def runs_of(results: Path, experiment: str) -> list[RunPaths]:
    """Runs of ``experiment``, oldest first (run ids start with their time)."""
    found = [p.parent for p in (results / experiment).glob("*/manifest.json")]
    return [RunPaths(folder) for folder in sorted(found, key=lambda folder: folder.name)]


@contextlib.contextmanager
def open_run(
    results: Path,
    new: Manifest,
    planned: list[StartPlan],
    run_id: str | None = None,
    fresh: bool = False,
    wait_s: float = 0.0,
) -> Iterator[OpenRun]:
    """Open the newest run of the same fingerprint that lacks some of ``planned``, else a new one.

    Args:
        results: the results folder.
        new: manifest for a new run; its fingerprint and variants are what must match.
        planned: the starts about to be made.
        run_id: this run and no other; made if it does not exist.
        fresh: a new run in any case.
        wait_s: how long to wait for another command that is writing into the run.

    A new run in which no start was begun is removed again at the end.

    Raises:
        UsageError: ``run_id`` names a run that measures something else, or on another machine.
        EnvironmentFault: another command holds the run, or the folder cannot be written.
    """
    with _held(results, new, planned, run_id, fresh, wait_s) as (paths, chosen, resumed):
        manifest, notes = read_manifest(paths.manifest), chosen
        if not set(planned) - set(completed(paths)):
            point_latest(results, paths.folder)  # no start will do so, and it is reported next
        elif resumed:
            joined, changed = _join(manifest, new)
            if joined != manifest:
                write_manifest(paths.manifest, joined)
            manifest, notes = joined, [*chosen, *changed]
        try:
            yield OpenRun(paths, manifest, resumed, tuple(notes))
        finally:
            if not resumed:
                _remove_if_nothing_but(paths, {paths.lock, paths.manifest})


@contextlib.contextmanager
def _held(
    results: Path,
    new: Manifest,
    planned: list[StartPlan],
    run_id: str | None,
    fresh: bool,
    wait_s: float,
) -> Iterator[tuple[RunPaths, list[str], bool]]:
    """The run to write into, locked and with its manifest; notes; whether it was there before."""
    experiment = str(new.experiment["name"])
    folder = results / experiment
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_fault(folder, error) from error
    while True:
        with _locked(_choosing(folder), _CHOOSE_S, folder):
            paths, notes = _choose(results, experiment, new, planned, run_id, fresh)
            resumed = paths.manifest.exists()
            if not resumed:
                write_manifest(paths.manifest, new)
        try:
            held = _locked(paths.lock, wait_s, paths.folder)
        except EnvironmentFault:
            if paths.manifest.exists():
                raise
            continue  # the command that had made it has removed it meanwhile
        with held:
            if paths.manifest.exists():
                yield paths, notes, resumed
                return
            _remove_if_nothing_but(paths, {paths.lock})  # made by the waiting itself


def _remove_if_nothing_but(paths: RunPaths, files: set[Path]) -> None:
    """Remove the run, whose lock is held, if it holds no more than ``files``."""
    experiment = paths.folder.parent
    # Nobody may choose it meanwhile.  If it cannot be removed, it stays: the next command joins it.
    with (
        contextlib.suppress(EnvironmentFault, OSError),
        _locked(_choosing(experiment), _CHOOSE_S, experiment),
    ):
        if set(paths.folder.iterdir()) <= files:
            shutil.rmtree(paths.folder)


def _choosing(experiment: Path) -> Path:
    """File lock held while a command chooses, makes or removes a run of the experiment."""
    return experiment / ".lock"


def _choose(
    results: Path,
    experiment: str,
    new: Manifest,
    planned: list[StartPlan],
    run_id: str | None,
    fresh: bool,
) -> tuple[RunPaths, list[str]]:
    made = RunPaths(results / experiment / new.run_id)
    if run_id is not None:
        paths = RunPaths(results / experiment / run_id)
        if paths.manifest.exists():
            reason = differs(read_manifest(paths.manifest), new)
            if reason is not None:
                raise UsageError(f"run {run_id!r} cannot be gone on with: {reason}")
        return paths, []
    if fresh:
        return made, []
    notes: list[str] = []
    for paths in reversed(runs_of(results, experiment)):
        with contextlib.suppress(UsageError):
            old = read_manifest(paths.manifest)
            lacks = set(planned) - set(completed(paths))
            reason = differs(old, new)
            if reason is None:
                return paths if lacks else made, notes
            if lacks and not notes and reason == machine_differs(old, new):
                notes.append(f"Run {paths.folder} is not gone on with: {reason}")
    return made, notes


def _join(old: Manifest, new: Manifest) -> tuple[Manifest, list[str]]:
    """``old`` with what the command of ``new`` adds, and what people should know of it."""
    server = {**old.experiment.get("server", {})}
    server |= {k: v for k, v in new.experiment.get("server", {}).items() if k in PER_COMMAND}
    update: dict[str, Any] = {
        "experiment": {**old.experiment, "server": server},
        "variants": {**new.variants, **old.variants},
        "variant_marks": {**new.variant_marks, **old.variant_marks},
    }
    was, now = tooling(old), tooling(new)
    if old.later_commands:
        was = {key: old.later_commands[-1].get(key) for key in was}
    notes = [
        f"This run was measured with {key} {was[key]} so far, from here on with {now[key]}"
        for key in was
        if was[key] and now[key] and was[key] != now[key]
    ]
    if notes:
        update["later_commands"] = [*old.later_commands, {"at": new.created_at, **now}]
    return old.model_copy(update=update), notes


def _locked(
    lock: Path, wait_s: float, what: Path
) -> contextlib.AbstractContextManager[BaseFileLock]:
    """Take ``lock``; leaving the context gives it back."""
    try:
        return FileLock(lock, timeout=wait_s).acquire()
    except Timeout:
        raise EnvironmentFault(
            f"{what}: another specgauge command is writing into it; "
            "wait for it, or start a run of its own with --new"
        ) from None
    except OSError as error:
        raise write_fault(what, error) from error
    except NotImplementedError:  # a file system without locks
        raise EnvironmentFault(
            f"{what}: files cannot be locked there: name another folder by SPECGAUGE_RESULTS"
        ) from None


def point_latest(results: Path, folder: Path) -> None:
    """Make ``results/latest`` a link to ``folder``.  Raises EnvironmentFault."""
    link = results / "latest"
    temporary = results / f".latest.{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(os.path.relpath(folder, results), target_is_directory=True)
        if link.exists() and not link.is_symlink():
            temporary.unlink()
            return
        temporary.replace(link)
    except OSError as error:
        raise write_fault(link, error) from error


def find_run(results: Path, name: str | None) -> RunPaths:
    """The run called ``name``: a folder, a run id, ``experiment/run-id``, or None for the latest.

    Raises:
        UsageError: there is no such run.
    """
    if name is None:
        latest = results / "latest"
        if (latest / "manifest.json").is_file():
            return RunPaths(latest.resolve())
        raise UsageError(f"no run yet in {results}: start with 'make demo' or 'specgauge run'")
    given = Path(name)
    if not given.name:  # '' or '.': the glob would match every folder
        raise UsageError(f"{name!r} is not the name of a run")
    candidates = [given, results / name, *results.glob(f"*/{glob.escape(given.name)}")]
    for folder in candidates:
        if (folder / "manifest.json").is_file():
            return RunPaths(folder.resolve())
    if given.is_dir():
        raise UsageError(f"{given}: not a results folder: it has no manifest.json")
    raise UsageError(f"no run {name!r} in {results}; 'specgauge list' shows what is there")


def new_run_id(fingerprint: str) -> str:
    """Sorts by time; ends with a piece of the fingerprint."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{fingerprint[:6]}"


def verdict_counts(paths: RunPaths) -> dict[str, int]:
    """Cells by verdict as of the last analysis, less partial starts; empty without one."""
    try:
        summary = json.loads(paths.summary.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    counts: dict[str, int] = {}
    for cell in summary.get("cells", []):
        if cell.get("excluded_because") not in (None, "INVALID", "drift"):
            continue
        counts[cell["verdict"]] = counts.get(cell["verdict"], 0) + 1
    return counts
