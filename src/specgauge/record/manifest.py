"""``manifest.json``: what a run measures, with which versions, on what machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from specgauge.errors import UsageError
from specgauge.record.atomic import write_json
from specgauge.record.documents import Document
from specgauge.record.schema import RESULTS_SCHEMA


class WorkloadFacts(Document):
    """Which prompts: the digest is of the file they came from."""

    name: str
    sha256: str
    prompts: int


class Manifest(Document):
    """One run.  ``variants`` grows when another variant joins the open run.

    Secrets are struck out of all documents in it; ``fingerprint`` and ``variant_marks`` are over
    the values as they were.
    """

    results_schema: str = Field(alias="schema", default=RESULTS_SCHEMA)
    run_id: str
    created_at: str
    """UTC, ISO 8601."""
    experiment: dict[str, Any]
    """The experiment as resolved, every default written out."""
    model: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    variant_marks: dict[str, str] = {}
    """Digest of each variant as it was defined."""
    workload: WorkloadFacts
    warmup_workload: WorkloadFacts | None = None
    runtime: Literal["process", "compose"]
    vllm: dict[str, Any] = {}
    """``version`` as the first server said, ``packages`` of its environment where known."""
    machine: dict[str, Any] = {}
    gpu: dict[str, Any] | None = None
    """The GPU that the servers were given: ``name``, ``uuid``, ``pci_bus_id``, ``driver``, memory,
    clocks, power limit (gpu/facts.py); null for a run without one."""
    git: dict[str, Any] = {}
    specgauge_version: str = ""
    later_commands: list[dict[str, Any]] = []
    """Commands that went on with the run under another specgauge, commit, kernel or Python than
    the command before: when, and which."""
    fingerprint: str
    """Digest of all that must be the same for two starts to belong to one run."""


def read_manifest(path: Path) -> Manifest:
    """Read ``path``.

    Raises:
        UsageError: no manifest there, not one of ours, or of another schema.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path.parent}: not a results folder: it has no manifest.json") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != RESULTS_SCHEMA:
        raise UsageError(
            f"{path}: its schema is {schema!r}, this specgauge reads {RESULTS_SCHEMA!r}: "
            "use the specgauge that wrote it, or run the experiment again"
        )
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        raise UsageError(f"{path}: {key}: {fault['msg']}") from error


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write it whole.  Raises EnvironmentFault."""
    write_json(path, manifest.model_dump(mode="json", by_alias=True))
