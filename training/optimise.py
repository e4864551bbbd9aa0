"""Loss, learning rate and optimizers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from training.drafter import Head, Step
    from training.settings import Settings


def combine(steps: list[Step], settings: Settings) -> Tensor:
    """Weighted mean loss of all steps; a scalar.

    Targets outside the draft vocabulary cannot be drafted and carry no loss (as in EAGLE-3).
    """
    total = torch.zeros((), device=steps[0].loss.device)
    alive = torch.ones_like(steps[0].valid)
    for index, step in enumerate(steps):
        floor = settings.alive_floor
        weight = (step.valid & step.in_vocabulary) * (floor + (1 - floor) * alive.float())
        total = total + settings.decay**index * (step.loss * weight).sum()
        alive = alive & step.correct
    return total / steps[0].valid.sum().clamp(min=1)


def learning_rate(step: int, settings: Settings) -> float:
    """Linear warm-up, then cosine to 1 % of the peak."""
    warm = min(1.0, (step + 1) / settings.warmup)
    progress = min(1.0, step / max(1, settings.steps))
    return settings.learning_rate * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))


def make_optimizers(head: Head, settings: Settings, fused: bool) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the matrices inside the head and AdamW for the rest."""
    matrices, rest = [], []
    for name, parameter in head.named_parameters():
        inner = parameter.dim() == 2 and not name.startswith("lm_head")
        (matrices if inner and settings.optimizer == "muon" else rest).append(parameter)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            rest,
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
            fused=fused,
        )
    ]
    if matrices:
        optimizers.append(
            torch.optim.Muon(
                matrices,
                lr=settings.learning_rate,
                weight_decay=settings.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return optimizers
