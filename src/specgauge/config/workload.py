"""Which prompts, and in which order."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from specgauge.config.base import StrictModel
from specgauge.config.names import PlainName


class Workload(StrictModel):
    """Prompts from a JSONL file or a download.

    ``jsonl``: one object a line with ``prompt`` (text) or ``messages``, optional ``id`` and
    ``category``.  ``spec_bench``: Spec-Bench's ``question.jsonl``, first turns only.
    """

    name: PlainName
    description: str = ""
    path: str | None = None
    """A file; relative to the YAML file that names it."""
    url: str | None = None
    """Instead of, or as a source for, ``path``: fetched once into the cache."""
    sha256: str | None = None
    """Of the file's bytes; required with ``url``."""
    format: Literal["jsonl", "spec_bench"] = "jsonl"
    order: Literal["file", "vllm_bench"] = "file"
    """``vllm_bench``: the order of ``vllm bench serve --dataset-name spec_bench``, which shuffles
    the whole file with Python's ``random.seed(0)``."""

    @model_validator(mode="after")
    def _has_source(self) -> Workload:
        if self.path is None and self.url is None:
            raise ValueError("give 'path' or 'url'")
        if self.url is not None and self.sha256 is None:
            raise ValueError(
                "'url' needs 'sha256': a download is only used when it is the one meant"
            )
        return self
