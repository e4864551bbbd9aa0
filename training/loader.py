"""Training batches: packed rows, and a choice of drafting starts in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from training.drafter import Batch

if TYPE_CHECKING:
    from training.dataset import Packed
    from training.settings import Settings

EARLY = 160
"""Answer tokens up to here are preferred as drafting starts; later ones fill up."""


class Loader:
    """Packed rows on the device, in an order that depends on seed and step alone."""

    def __init__(self, packed: Packed, settings: Settings, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.tokens = packed.tokens.to(device, torch.int32)
        self.document = packed.document.to(device)
        self.position = packed.position.to(device)
        self.answer = packed.answer.to(device)
        self.per_epoch = len(packed) // settings.rows
        if not self.per_epoch:
            raise ValueError(f"{len(packed)} packed rows make no batch of {settings.rows}")

    def batch(self, step: int) -> Batch:
        """The rows of one step and a fresh choice of starts in them."""
        settings = self.settings
        epoch, within = divmod(step, self.per_epoch)
        shuffle = torch.Generator().manual_seed(settings.seed * 10_007 + epoch)
        order = torch.randperm(self.tokens.shape[0], generator=shuffle)
        chosen = order[within * settings.rows : (within + 1) * settings.rows].to(self.device)
        answer = self.answer[chosen]
        wanted = answer.roll(-1, dims=1)
        wanted[:, -1] = False
        random_ = torch.Generator(self.device).manual_seed(settings.seed * 1_000_003 + step)
        score = torch.rand(wanted.shape, generator=random_, device=self.device)
        # An answer's index: how many answer tokens of the same document came before.
        count = answer.cumsum(1)
        begins = answer & ~answer.roll(1, dims=1)
        base = torch.where(begins, count - 1, 0).cummax(1).values
        score = score + (count - base <= EARLY)
        score = torch.where(wanted, score, -1.0)
        start = score.topk(settings.starts, dim=1).indices.sort(1).values
        return Batch(
            tokens=self.tokens[chosen].long(),
            document=self.document[chosen],
            position=self.position[chosen],
            start=start,
            used=wanted.gather(1, start),
        )
