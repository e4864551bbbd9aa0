"""Training is deterministic, can be continued, and makes the head better."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from training.dataset import Packed, Sequence, pack
from training.drafter import Head
from training.judge import judge
from training.settings import Settings
from training.tests.tiny import random_target
from training.train import train

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = Settings(
    taps=(0, 2, 4),
    draft_vocab=32,
    intermediate=24,
    length=32,
    rows=2,
    starts=12,
    steps=6,
    warmup=2,
)
DRAFT_IDS = torch.arange(0, 64, 2)


def cycles() -> Packed:
    """Answers that count up in even numbers: an easy language."""
    ids = [torch.arange(start, start + 24, 2) % 64 for start in range(0, 64, 4)]
    return pack([Sequence(row, 4, "count", True) for row in ids], 32, seed=0)


def weights(head: Head) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in head.parameters()])


def test_same_seed_same_head_and_a_stopped_run_continues(tmp_path: Path) -> None:
    target, packed = random_target(), cycles()
    whole, _ = train(SETTINGS, target, packed, DRAFT_IDS, _folder(tmp_path / "a"), 1e9)
    again, _ = train(SETTINGS, target, packed, DRAFT_IDS, _folder(tmp_path / "b"), 1e9)
    assert torch.equal(weights(whole), weights(again))

    folder = _folder(tmp_path / "c")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.train.Loader", _StoppingLoader)
        with pytest.raises(KeyboardInterrupt):
            train(SETTINGS, target, packed, DRAFT_IDS, folder, checkpoint_seconds=0)
    continued, _ = train(SETTINGS, target, packed, DRAFT_IDS, folder, 1e9)
    assert torch.equal(weights(whole), weights(continued))
    with pytest.raises(ValueError, match="other settings"):
        train(replace(SETTINGS, seed=2), target, packed, DRAFT_IDS, folder, 1e9)


def test_training_raises_acceptance_towards_the_answers(tmp_path: Path) -> None:
    target, packed = random_target(), cycles()
    settings = replace(SETTINGS, steps=1)
    first, _ = train(settings, target, packed, DRAFT_IDS, _folder(tmp_path / "a"), 1e9)
    settings = replace(SETTINGS, steps=30)
    last, took = train(settings, target, packed, DRAFT_IDS, _folder(tmp_path / "b"), 1e9)
    losses = [_loss(head, target, packed) for head in (first, last)]
    assert losses[1] < 0.8 * losses[0]
    assert took["epochs"] == pytest.approx(30 / (len(packed) // 2))
    assert judge(last, target, DRAFT_IDS, packed, 2, 12, 3, flex=False)["all"].drafts > 0


def _loss(head: Head, target: object, packed: Packed) -> float:
    from training.drafter import run_chain
    from training.loader import Loader
    from training.optimise import combine

    index = torch.full((64,), -1)
    index[DRAFT_IDS] = torch.arange(32)
    batch = Loader(packed, SETTINGS, torch.device("cpu")).batch(0)
    rows = target.embedding[DRAFT_IDS]  # type: ignore[attr-defined]
    return combine(run_chain(head, target, rows, index, batch, 3, False), SETTINGS).item()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


class _StoppingLoader:
    """Stops the run at its fourth batch, as a lost machine would."""

    def __init__(self, *arguments: object) -> None:
        from training.loader import Loader

        self.loader = Loader(*arguments)  # type: ignore[arg-type]
        self.per_epoch = self.loader.per_epoch

    def batch(self, step: int) -> object:
        if step == 3:
            raise KeyboardInterrupt
        return self.loader.batch(step)
