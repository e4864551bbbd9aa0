"""Base of the documents that a truth consists of."""

from __future__ import annotations

from pydantic import ConfigDict

from specgauge.config.base import StrictModel


class TruthPart(StrictModel):
    """Unknown keys are errors; JSON's own types are converted (its keys are texts, it has no
    tuples)."""

    model_config = ConfigDict(strict=False)
