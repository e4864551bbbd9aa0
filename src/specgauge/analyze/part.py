"""Base of everything in ``analysis/summary.json``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of the summary's parts: immutable, written with JSON's own key names."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False
    )
