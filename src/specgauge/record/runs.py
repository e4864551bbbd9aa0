"""Opening, finding and listing runs under ``results/``."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.plan import StartPlan
from specgauge.record.documents import Outcome
from specgauge.record.layout import RunPaths
from specgauge.record.manifest import Manifest, read_manifest, write_manifest


@dataclass(frozen=True)
class OpenRun:
    """A run this process may write into while it holds the lock."""

    paths: RunPaths
    manifest: Manifest
    resumed: bool


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

    Raises:
        UsageError: ``run_id`` names a run that measures something else.
        EnvironmentFault: another command holds the run, or the folder cannot be written.
    """
    experiment = str(new.experiment["name"])
    folder = results / experiment
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be made: {error.strerror}") from error
    with _locked(folder / ".lock", 30.0, folder):
        paths = _choose(results, experiment, new, planned, run_id, fresh)
        resumed = paths.manifest.exists()
        if not resumed:
            write_manifest(paths.manifest, new)
    with _locked(paths.lock, wait_s, paths.folder):
        manifest = read_manifest(paths.manifest)
        joined = {**new.variants, **manifest.variants}
        if joined != manifest.variants:
            manifest = manifest.model_copy(update={"variants": joined})
            write_manifest(paths.manifest, manifest)
        point_latest(results, paths.folder)
        yield OpenRun(paths, manifest, resumed)


def _choose(
    results: Path,
    experiment: str,
    new: Manifest,
    planned: list[StartPlan],
    run_id: str | None,
    fresh: bool,
) -> RunPaths:
    made = RunPaths(results / experiment / new.run_id)
    if run_id is not None:
        paths = RunPaths(results / experiment / run_id)
        if paths.manifest.exists():
            reason = _differs(read_manifest(paths.manifest), new)
            if reason is not None:
                raise UsageError(f"run {run_id!r} measures something else: {reason}")
        return paths
    if fresh:
        return made
    for paths in reversed(runs_of(results, experiment)):
        with contextlib.suppress(UsageError):
            if _differs(read_manifest(paths.manifest), new) is None:
                lacks = set(planned) - set(completed(paths))
                return paths if lacks else made
    return made


def _differs(old: Manifest, new: Manifest) -> str | None:
    """What keeps ``new`` from joining ``old``, in words; None when nothing does."""
    if old.fingerprint != new.fingerprint:
        for what in ("experiment", "model", "workload", "warmup_workload", "runtime"):
            was, now = getattr(old, what), getattr(new, what)
            if was != now:
                keys = (
                    [k for k in {**was, **now} if was.get(k) != now.get(k)]
                    if isinstance(was, dict) and isinstance(now, dict)
                    else []
                )
                return f"its {what} differs{' in ' + ', '.join(keys) if keys else ''}"
        return "its fingerprint differs"
    for name, variant in new.variants.items():
        if name in old.variants and old.variants[name] != variant:
            return f"variant {name!r} was defined differently"
    return None


@contextlib.contextmanager
def _locked(lock: Path, wait_s: float, what: Path) -> Iterator[None]:
    try:
        with FileLock(lock, timeout=wait_s):
            yield
    except Timeout:
        raise EnvironmentFault(
            f"{what}: another specgauge command is writing into it; "
            "wait for it, or start a run of its own with --new"
        ) from None


def point_latest(results: Path, folder: Path) -> None:
    """Make ``results/latest`` a link to ``folder``."""
    link = results / "latest"
    temporary = results / f".latest.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(os.path.relpath(folder, results), target_is_directory=True)
    if link.exists() and not link.is_symlink():
        temporary.unlink()
        return
    temporary.replace(link)


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
    candidates = [given, results / name, *results.glob(f"*/{given.name}")]
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
    """Cells by verdict as of the last analysis; empty when there is none."""
    try:
        summary = json.loads(paths.summary.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    counts: dict[str, int] = {}
    for cell in summary.get("cells", []):
        counts[cell["verdict"]] = counts.get(cell["verdict"], 0) + 1
    return counts
