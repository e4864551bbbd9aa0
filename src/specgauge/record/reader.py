"""Reads a results folder back into plain data: the only input of the analysis."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from specgauge.analyze.records import (
    CellRecord,
    LoadSetup,
    LogLine,
    RunRecord,
    RunSetup,
    SloSetup,
    StartRecord,
    VariantSetup,
)
from specgauge.errors import UsageError
from specgauge.record.documents import CellDocument, Document, Launch, Margins, Outcome
from specgauge.record.layout import (
    CONFIRM,
    FIRST_CALL,
    WARMUP,
    CellPaths,
    RunPaths,
    StartPaths,
    is_measured,
)
from specgauge.record.schema import CHUNKS, METRICS, REQUESTS, RESULTS_SCHEMA, TELEMETRY
from specgauge.record.tables import read_table

D = TypeVar("D", bound=Document)

_STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) ([OE]) ?(.*)")


def read_run(folder: Path) -> RunRecord:
    """Read the run in ``folder``.  Partial starts are present and flagged by their outcome.

    Raises:
        UsageError: no run there, a file of it is damaged, or it has another schema.
    """
    paths = RunPaths(folder)
    manifest = _manifest(paths)
    try:
        setup = _setup(manifest)
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{paths.manifest}: its plan cannot be read: {error}") from error
    order = {variant.name: i for i, variant in enumerate(setup.variants)}
    starts = [_start(variant, k, at) for variant, k, at in paths.starts()]
    starts.sort(key=lambda s: (order.get(s.variant, len(order)), s.variant, s.start))
    return RunRecord(setup, tuple(starts))


def _manifest(paths: RunPaths) -> dict[str, Any]:
    manifest = _json(paths.manifest)
    if manifest is None:
        raise UsageError(
            f"{paths.folder}: no run here: {paths.manifest.name} is missing. Give a folder "
            "results/<experiment>/<run-id> (`specgauge list` shows them)."
        )
    found = manifest.get("schema")
    if found != RESULTS_SCHEMA:
        raise UsageError(
            f"{paths.manifest}: its schema is {found!r}, this release reads {RESULTS_SCHEMA!r}. "
            "Use the release that wrote it, or measure again."
        )
    return manifest


def _json(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    """JSON has no infinity, but 1e999 is one to Python."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _document(model: type[D], path: Path) -> D | None:
    value = _json(path)
    if value is None:
        return None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(": ".join(filter(None, (str(path), key, first["msg"])))) from error


def _setup(manifest: dict[str, Any]) -> RunSetup:
    """The plan, read leniently: a key that is missing has its default."""
    experiment: dict[str, Any] = manifest.get("experiment") or {}
    variants: dict[str, Any] = manifest.get("variants") or {}
    names = [*experiment.get("variants", []), *variants]
    model = manifest.get("model") or experiment.get("model") or ""
    slo: dict[str, Any] | None = experiment.get("slo")
    return RunSetup(
        experiment=str(experiment.get("name", "")),
        run_id=str(manifest.get("run_id", "")),
        model=str(model.get("name", "") if isinstance(model, dict) else model),
        baseline=str(experiment.get("baseline", "vanilla")),
        variants=tuple(
            _variant(name, variants.get(name) or {}, model) for name in dict.fromkeys(names)
        ),
        loads=tuple(_load(load) for load in experiment.get("loads", [])),
        rounds=int(experiment.get("rounds", 1)),
        repeats=int(experiment.get("repeats", 1)),
        slo=SloSetup(slo.get("ttft_ms"), slo.get("tpot_ms"), slo.get("e2e_ms")) if slo else None,
        facts=manifest,
    )


def _variant(name: str, value: dict[str, Any], model: Any) -> VariantSetup:
    """A variant; its drafter's name is replaced by what the model says it is."""
    config = value.get("speculative_config")
    drafters = model.get("drafters", {}) if isinstance(model, dict) else {}
    if config is not None and value.get("drafter") in drafters:
        config = {**config, "model": drafters[value["drafter"]]}
    if config is not None and config.get("num_speculative_tokens") is not None:
        config = {**config, "num_speculative_tokens": int(config["num_speculative_tokens"])}
    return VariantSetup(name, config, value.get("matched_baseline"))


def _load(value: dict[str, Any]) -> LoadSetup:
    concurrency, rate = value.get("concurrency"), value.get("rate")
    concurrency = None if concurrency is None else int(concurrency)
    rate = None if rate is None else float(rate)
    name = f"c{concurrency}" if concurrency is not None else f"r{rate or 0.0}"
    return LoadSetup(name, int(value.get("requests", 0)), concurrency, rate)


def _start(variant: str, k: int, paths: StartPaths) -> StartRecord:
    launch = _document(Launch, paths.launch)
    cells = [read_cell(variant, k, load, r, at) for load, r, at in paths.cells()]
    cells.sort(key=lambda c: (c.document is None, c.document.t_begin if c.document else 0.0))
    return StartRecord(
        variant=variant,
        start=k,
        launch=launch,
        outcome=_document(Outcome, paths.outcome),
        log=read_log(paths.server_log, launch.clock_offset if launch else 0.0),
        metrics=read_table(paths.metrics, METRICS),
        telemetry=read_table(paths.telemetry, TELEMETRY),
        cells=tuple(c for c in cells if is_measured(c.load)),
        warmup=tuple(c for c in cells if c.load == WARMUP),
        first_call=next((c for c in cells if c.load == FIRST_CALL), None),
        margins=_document(Margins, paths.margins),
        confirmations=tuple(
            replace(c, load=c.load.removeprefix(CONFIRM))
            for c in cells
            if c.load.startswith(CONFIRM)
        ),
    )


def read_cell(variant: str, k: int, load: str, repeat: int, paths: CellPaths) -> CellRecord:
    """One cell; empty tables where its files are missing.

    Raises:
        UsageError: a file of it is damaged.
    """
    return CellRecord(
        variant=variant,
        start=k,
        load=load,
        repeat=repeat,
        document=_document(CellDocument, paths.cell),
        requests=read_table(paths.requests, REQUESTS),
        chunks=read_table(paths.chunks, CHUNKS),
    )


def read_log(path: Path, clock_offset: float) -> tuple[LogLine, ...]:
    """Stamped lines of a server, on the cells' clock: epoch less ``clock_offset``.

    A line without a stamp (the end of a damaged file) has the time of the line before it.
    """
    if not path.is_file():
        return ()
    found: list[LogLine] = []
    t, stream = 0.0, "O"
    for raw in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        if not raw:
            continue
        text = raw
        stamped = _STAMPED.fullmatch(raw)
        if stamped and (epoch := _epoch(stamped[1])) is not None:
            t, stream, text = epoch - clock_offset, stamped[2], stamped[3]
        found.append(LogLine(t, _stream(stream), text))
    return tuple(found)


def _epoch(stamp: str) -> float | None:
    """Seconds since 1970, None if there is no such date."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).timestamp()
    except ValueError:
        return None


def _stream(letter: str) -> Literal["O", "E"]:
    return "E" if letter == "E" else "O"
