"""Train an EAGLE3 head.

    python -m training.train --model FOLDER --data FOLDER --out FOLDER --steps 8000

Writes checkpoints (continued from when the command is repeated), the head in vLLM's layout, and
`result.json` with settings, speed and acceptance on held-out rows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.dataset import (
    Packed,
    Sequence,
    choose_draft_vocabulary,
    count_answer_tokens,
    pack,
    read_sequences,
)
from training.drafter import Batch, Head, HeadShape, Step, initialise, run_chain
from training.export import export_head
from training.judge import judge
from training.shards import Shard
from training.target import Target, load_target

EARLY = 160
"""Answer tokens up to here are preferred as drafting starts; later ones fill up."""
CLIP = 1.0
"""Largest norm of the gradient."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides the outcome, kept with it."""

    taps: tuple[int, int, int] = (2, 15, 27)
    draft_vocab: int = 8192
    intermediate: int = 2688
    norm_taps: bool = True
    ttt_steps: int = 4
    decay: float = 0.9
    """Weight of step j is decay**j."""
    alive_floor: float = 0.3
    """Weight of a start whose earlier draft tokens were wrong: drafting never gets there."""
    data_share: float = 1.0
    length: int = 2048
    rows: int = 16
    starts: int = 1024
    steps: int = 2000
    warmup: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    optimizer: str = "adamw"
    seed: int = 1


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
            rest, lr=settings.learning_rate, betas=(0.9, 0.95),
            weight_decay=settings.weight_decay, fused=fused,
        )
    ]
    if matrices:
        optimizers.append(
            torch.optim.Muon(
                matrices, lr=settings.learning_rate, weight_decay=settings.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return optimizers


def save_checkpoint(
    path: Path, head: Head, optimizers: list[torch.optim.Optimizer], step: int, draft_ids: Tensor
) -> None:
    """Write whole or not at all."""
    state = {
        "head": head.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": step,
        "draft_ids": draft_ids,
    }
    torch.save(state, path.with_suffix(".partial"))
    os.replace(path.with_suffix(".partial"), path)


def read_judged(pairs: list[str], length: int) -> dict[str, Packed]:
    """`name=shard file` pairs, packed for judging."""
    packed = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        shard = Shard.load(Path(path))
        sequences = [
            Sequence(
                shard.tokens[row, : shard.ends[row]].long(),
                int(shard.answer_start[row]),
                shard.kinds[shard.kind[row]],
                bool(shard.greedy[row]),
            )
            for row in range(len(shard.ends))
        ]
        packed[name] = pack(sequences, length, seed=0)
    return packed


def train(
    settings: Settings, target: Target, packed: Packed, draft_ids: Tensor, out: Path,
    checkpoint_seconds: float,
) -> tuple[Head, dict[str, float]]:
    """Run or continue the training; returns the head and what it took."""
    device = target.embedding.device
    flex = device.type == "cuda"
    shape = HeadShape(
        settings.taps, settings.draft_vocab, settings.intermediate, settings.norm_taps
    )
    head = Head(target.shape, shape)
    initialise(head, target, draft_ids, settings.seed)
    head.to(device)
    optimizers = make_optimizers(head, settings, fused=flex)
    first = 0
    checkpoint = out / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        head.load_state_dict(state["head"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        first = state["step"]
        print(f"continuing at step {first}", flush=True)

    draft_index = torch.full((target.shape.vocab_size,), -1, device=device)
    draft_index[draft_ids] = torch.arange(len(draft_ids), device=device)
    target_rows = target.embedding[draft_ids]
    loader = Loader(packed, settings, device)
    began = saved_at = time.monotonic()
    warm_at, warm_step = began, first
    for step in range(first, settings.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, settings)
        with torch.autocast(device.type, torch.bfloat16, enabled=flex):
            outcome = run_chain(
                head, target, target_rows, draft_index, loader.batch(step),
                settings.ttt_steps, flex,
            )
        loss = combine(outcome, settings)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), CLIP)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step == first + 10:
            warm_at, warm_step = time.monotonic(), step  # compiling is over
        if (step + 1) % 100 == 0 or step + 1 == settings.steps:
            _log(step, loss, outcome, time.monotonic() - began)
        if time.monotonic() - saved_at > checkpoint_seconds:
            save_checkpoint(checkpoint, head, optimizers, step + 1, draft_ids)
            saved_at = time.monotonic()
    save_checkpoint(checkpoint, head, optimizers, settings.steps, draft_ids)
    ended = time.monotonic()
    pace = (ended - warm_at) / max(1, settings.steps - 1 - warm_step)
    return head, {
        "seconds": round(ended - began, 1),
        "seconds_a_step": round(pace, 4),
        "epochs": round(settings.steps / loader.per_epoch, 2),
        "packed_rows": len(packed),
    }


def _log(step: int, loss: Tensor, outcome: list[Step], seconds: float) -> None:
    """One line; the rates are cumulative, and teacher-forced on this batch."""
    alive = outcome[0].valid
    rates = []
    for part in outcome:
        alive = alive & part.correct
        rates.append(round(float(alive.sum() / part.valid.sum().clamp(min=1)), 3))
    print(f"step {step + 1}  {seconds:.1f} s  loss {loss.item():.4f}  rates {rates}", flush=True)


def parse() -> tuple[argparse.Namespace, Settings]:
    """Command line: paths, and one option for each field of `Settings`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--judge", nargs="*", default=[], metavar="NAME=SHARD")
    parser.add_argument("--checkpoint-seconds", type=float, default=60)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in asdict(Settings()).items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=value)
        elif isinstance(value, tuple):
            parser.add_argument(option, type=int, nargs=len(value), default=value)
        else:
            parser.add_argument(option, type=type(value), default=value)
    arguments = parser.parse_args()
    chosen = {name: getattr(arguments, name) for name in asdict(Settings())}
    chosen["taps"] = tuple(chosen["taps"])
    return arguments, Settings(**chosen)


def run(
    settings: Settings, target: Target, packed: Packed, sets: dict[str, Packed],
    out: Path, checkpoint_seconds: float,
) -> dict[str, Any]:
    """Train one head, export it to `out`, judge it on `sets`; returns what `result.json` holds."""
    out.mkdir(parents=True, exist_ok=True)
    device = target.embedding.device
    sequences = packed.sequences
    counts = count_answer_tokens(sequences, target.shape.vocab_size)
    draft_ids = choose_draft_vocabulary(counts, settings.draft_vocab)
    coverage = float(counts[draft_ids].sum() / counts.sum())
    tokens = sum(len(sequence.tokens) for sequence in sequences)
    print(f"{len(sequences)} rows, {tokens} tokens, {int(counts.sum())} in answers; "
          f"{len(packed)} packed rows; draft vocabulary covers {coverage:.4f}", flush=True)
    draft_ids = draft_ids.to(device)
    head, took = train(settings, target, packed, draft_ids, out, checkpoint_seconds)
    export_head(head, draft_ids, out)
    judged = {}
    for name, part in sets.items():
        found = judge(
            head, target, draft_ids, part, settings.rows, settings.starts,
            settings.ttt_steps, flex=device.type == "cuda", most_tokens=128,
        )
        judged[name] = {kind: acceptance.to_dict() for kind, acceptance in found.items()}
        print(name, {kind: round(item.length, 3) for kind, item in found.items()}, flush=True)
    result = {
        "settings": asdict(settings),
        "data": {
            "rows": len(sequences),
            "tokens": tokens,
            "answer_tokens": int(counts.sum()),
            "vocabulary_coverage": round(coverage, 5),
        },
        "training": took,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "acceptance": judged,
    }
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def main() -> None:
    """Command line; see the module's docstring."""
    arguments, settings = parse()
    torch.set_float32_matmul_precision("high")
    device = torch.device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    target = load_target(arguments.model, device, dtype)
    sequences, held_out = read_sequences(arguments.data, settings.data_share)
    sets = {"held_out": pack(held_out, settings.length, seed=0)}
    sets |= read_judged(arguments.judge, settings.length)
    packed = pack(sequences, settings.length, settings.seed)
    run(settings, target, packed, sets, arguments.out, arguments.checkpoint_seconds)


if __name__ == "__main__":
    main()
