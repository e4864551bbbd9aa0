"""Train an EAGLE3 head.

    python -m training.train --model FOLDER --data FOLDER --out FOLDER

Writes checkpoints (continued from when the command is repeated), the head in vLLM's layout, and
`result.json` with settings, speed and acceptance on held-out rows.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
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
from training.drafter import Head, HeadShape, Step, initialise, run_chain
from training.export import export_head
from training.judge import judge
from training.loader import Loader
from training.optimise import combine, learning_rate, make_optimizers
from training.settings import Settings
from training.shards import Shard
from training.target import Target, load_target

CLIP = 1.0
"""Largest norm of the gradient."""


def save_checkpoint(
    path: Path, head: Head, optimizers: list[torch.optim.Optimizer], step: int, settings: Settings
) -> None:
    """Write whole or not at all."""
    state = {
        "head": head.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": step,
        "settings": json.dumps(asdict(settings)),
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
    settings: Settings,
    target: Target,
    packed: Packed,
    draft_ids: Tensor,
    out: Path,
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
        if state["settings"] != json.dumps(asdict(settings)):
            raise ValueError(f"{checkpoint} was written with other settings; use another --out")
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
                head,
                target,
                target_rows,
                draft_index,
                loader.batch(step),
                settings.ttt_steps,
                flex,
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
            save_checkpoint(checkpoint, head, optimizers, step + 1, settings)
            saved_at = time.monotonic()
    save_checkpoint(checkpoint, head, optimizers, settings.steps, settings)
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
    settings: Settings,
    target: Target,
    packed: Packed,
    sets: dict[str, Packed],
    out: Path,
    checkpoint_seconds: float,
) -> dict[str, Any]:
    """Train one head, export it to `out`, judge it on `sets`; returns what `result.json` holds."""
    out.mkdir(parents=True, exist_ok=True)
    device = target.embedding.device
    sequences = packed.sequences
    counts = count_answer_tokens(sequences, target.shape.vocab_size)
    draft_ids = choose_draft_vocabulary(counts, settings.draft_vocab)
    coverage = float(counts[draft_ids].sum() / counts.sum())
    tokens = sum(len(sequence.tokens) for sequence in sequences)
    print(
        f"{len(sequences)} rows, {tokens} tokens, {int(counts.sum())} in answers; "
        f"{len(packed)} packed rows; draft vocabulary covers {coverage:.4f}",
        flush=True,
    )
    draft_ids = draft_ids.to(device)
    head, took = train(settings, target, packed, draft_ids, out, checkpoint_seconds)
    export_head(head, draft_ids, out)
    judged = {}
    for name, part in sets.items():
        found = judge(
            head,
            target,
            draft_ids,
            part,
            settings.rows,
            settings.starts,
            settings.ttt_steps,
            flex=device.type == "cuda",
            most_tokens=128,
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
