"""The settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Everything that decides the outcome, kept with it. The defaults made the shipped head."""

    taps: tuple[int, int, int] = (2, 15, 27)
    draft_vocab: int = 8192
    intermediate: int = 2688
    norm_taps: bool = True
    ttt_steps: int = 3
    """Drafting steps in training; as many as are drafted later."""
    decay: float = 0.9
    """Weight of step j is decay**j."""
    alive_floor: float = 0.3
    """Weight of a start whose earlier draft tokens were wrong: drafting never gets there."""
    data_share: float = 1.0
    """Share of the training rows that is used."""
    length: int = 2048
    """Tokens in a packed row."""
    rows: int = 16
    """Packed rows in a batch."""
    starts: int = 1024
    """Drafting starts chosen in each packed row."""
    steps: int = 10000
    warmup: int = 200
    learning_rate: float = 3e-3
    weight_decay: float = 0.01
    optimizer: str = "muon"
    seed: int = 1
