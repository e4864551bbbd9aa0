"""What every part of the summary is, and the words of a verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["VALID", "SUSPECT", "INVALID"]


class Part(BaseModel):
    """Base of the summary's parts: immutable, written with JSON's own key names."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False
    )
