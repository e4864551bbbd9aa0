"""Generated rows on disk: one safetensors file a batch, written whole, never changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Shard:
    """Rows of one batch; every tensor has one entry a row.

    tokens: int32 ``[rows, length]``; ends: tokens in use; answer_start: see `decode.Generated`;
    kind: index into `kinds`; greedy: answered at temperature 0; group: rows that share a passage
    share a group, so that a passage is never both trained on and held out.
    """

    tokens: Tensor
    ends: Tensor
    answer_start: Tensor
    kind: Tensor
    greedy: Tensor
    group: Tensor
    kinds: list[str]

    def save(self, path: Path) -> None:
        """Write to a temporary name, then rename: a file that exists is complete."""
        fields = ("tokens", "ends", "answer_start", "kind", "greedy", "group")
        tensors = {name: getattr(self, name).cpu().contiguous() for name in fields}
        partial = path.with_suffix(".partial")
        save_file(tensors, partial, metadata={"kinds": "|".join(self.kinds)})
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> Shard:
        """Read a file written by `save`."""
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return cls(**tensors, kinds=file.metadata()["kinds"].split("|"))


def concatenate(parts: list[Shard]) -> Shard:
    """Join shards of equal kinds and row length."""
    fields = ("tokens", "ends", "answer_start", "kind", "greedy", "group")
    joined = {name: torch.cat([getattr(part, name).cpu() for part in parts]) for name in fields}
    return Shard(**joined, kinds=parts[0].kinds)
