"""A target model, its drafters and the server arguments it needs."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from specgauge.config.base import StrictModel
from specgauge.config.names import PlainName
from specgauge.config.variant import ServerArgs


class Model(StrictModel):
    """What ``vllm serve`` is given: a hub name, a folder, or the embedded model."""

    name: PlainName
    """Also ``--served-model-name``."""
    path: str | None = None
    """Hub name (``Qwen/Qwen3-32B``) or a folder; a relative folder counts from the project."""
    embedded: str | None = None
    """Instead of ``path``: a model that a package registry carries, converted on this machine."""
    revision: str | None = None
    drafters: dict[str, str] = {}
    """Drafter name → hub name or folder."""
    eos_token_ids: list[int] = []
    """Tokens that end an answer: with ``ignore_eos`` what follows one is told apart."""
    chat_template_kwargs: dict[str, bool | int | str] = {}
    server_args: ServerArgs = {}
    server_env: dict[str, str] = {}
    platform: Literal["any", "cpu", "cuda"] = "any"
    """``cpu``: needs a CPU build of vLLM; ``cuda``: needs a GPU; ``any``."""

    @model_validator(mode="after")
    def _one_source(self) -> Model:
        if (self.path is None) == (self.embedded is None):
            raise ValueError("give either 'path' or 'embedded'")
        return self
