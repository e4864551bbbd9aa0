"""Greedy answers to a prompts file, as a shard: what `judge.py` replays. Never trained on.

python -m training.answer --model FOLDER --prompts question.jsonl --out FILE
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from training.decode import Decoder, Rows
from training.generate import make_writer
from training.shards import Shard

TOKENS = 128 + 3
"""What is measured, and three tokens to judge the last draft by."""


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True, help="JSON Lines: category, turns")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="only the first so many prompts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    writer = make_writer(arguments.model, device, dtype, seed=0)
    lines = arguments.prompts.read_text(encoding="utf-8").splitlines()[: arguments.limit]
    questions = [json.loads(line) for line in lines]
    kinds = sorted({question["category"] for question in questions})
    encoded = writer.encode(
        [writer.before(question["turns"][0]) + writer.after() for question in questions]
    )
    rows = len(encoded)
    no = torch.zeros(rows, dtype=torch.bool)
    decoder = Decoder(writer.target, writer.script, rows, max(map(len, encoded)) + TOKENS)
    batch = Rows(encoded, no, torch.zeros(rows), no, no, torch.zeros(rows))
    made = decoder.generate(batch, TOKENS, seed=0)
    Shard(
        tokens=made.tokens,
        ends=made.ends,
        answer_start=made.answer_start,
        kind=torch.tensor([kinds.index(question["category"]) for question in questions]),
        greedy=~no,
        group=torch.arange(rows),
        kinds=kinds,
    ).save(arguments.out)


if __name__ == "__main__":
    main()
