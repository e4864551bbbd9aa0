"""Train several heads that differ in one thing each, for the same number of steps, and compare.

    python -m training.variations --model FOLDER --data FOLDER --out FOLDER --steps 500

One process for all, so that compiled kernels are shared. A variation whose `result.json` exists is
not trained again. The table shows replayed acceptance lengths (K=3) on each judged set.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from training.dataset import pack, read_sequences
from training.settings import Settings
from training.target import load_target
from training.train import read_judged, run

BASE = {"optimizer": "adamw", "learning_rate": 1e-3, "ttt_steps": 4, "warmup": 100}
"""The variations' common ground, poorer than the defaults, which were chosen by their result."""
VARIATIONS: dict[str, dict[str, Any]] = {
    "base": {},
    "last layer tapped": {"taps": (2, 15, 30)},
    "late layers tapped": {"taps": (15, 24, 30)},
    "three training steps": {"ttt_steps": 3},
    "12,288 draft tokens": {"draft_vocab": 12288, "intermediate": 1344},
    "twice the rate": {"learning_rate": 2e-3},
    "muon": {"optimizer": "muon", "learning_rate": 2e-3},
    "all starts alike": {"alive_floor": 1.0},
    "no tap norms": {"norm_taps": False},
    "a tenth of the data": {"data_share": 0.1},
}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown: one line a variation, one column a judged set."""
    sets = list(next(iter(results.values()))["acceptance"])
    lines = [
        f"| variation | {' | '.join(sets)} | seconds a step | epochs |",
        "|---|" + "---|" * (len(sets) + 2),
    ]
    for name, result in results.items():
        lengths = " | ".join(f"{result['acceptance'][key]['all']['length']:.3f}" for key in sets)
        took = result["training"]
        lines.append(f"| {name} | {lengths} | {took['seconds_a_step']:.3f} | {took['epochs']} |")
    return "\n".join(lines)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--only", nargs="*", choices=list(VARIATIONS), default=list(VARIATIONS))
    parser.add_argument("--judge", nargs="*", default=[], metavar="NAME=SHARD")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    target = load_target(arguments.model, device, dtype)
    base = replace(Settings(steps=arguments.steps), **BASE)
    sequences, held_out = read_sequences(arguments.data)
    everything = pack(sequences, base.length, base.seed)
    sets = {"held_out": pack(held_out, base.length, seed=0)}
    sets |= read_judged(arguments.judge, base.length)
    results: dict[str, dict[str, Any]] = {}
    for name in arguments.only:
        out = arguments.out / name.replace(" ", "-").replace(",", "")
        settings = replace(base, **VARIATIONS[name])
        print(f"== {name}", flush=True)
        if not (out / "result.json").exists():
            packed = everything
            if settings.data_share < 1:
                thinned, _ = read_sequences(arguments.data, settings.data_share)
                packed = pack(thinned, settings.length, settings.seed)
            run(settings, target, packed, sets, out, checkpoint_seconds=1e9)
        results[name] = json.loads((out / "result.json").read_text())
        (arguments.out / "table.md").write_text(table(results) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
