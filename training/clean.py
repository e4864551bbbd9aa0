"""Decide which generated rows are used: whole, not repeated, and free of forbidden prompts.

    python -m training.clean --model FOLDER --data FOLDER --against prompts.jsonl workload.jsonl

Writes `keep.safetensors` (one bool a row, by shard name) and `clean.json`, the report.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from training.overlap import Forbidden, read_strings
from training.prompts import last_turn
from training.shards import Shard

if TYPE_CHECKING:
    from torch import Tensor

SHORTEST_ANSWER = 24
"""Rows whose answer starts later than this many tokens before their end are dropped."""


def judge_shard(path: Path, model: Path, forbidden: Forbidden) -> tuple[list[str], list[str]]:
    """One verdict a row ("kept", or why not) and the user's turn, for finding repeats."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    shard = Shard.load(path)
    verdicts, turns = [], []
    for row, start, end in zip(
        shard.tokens.tolist(), shard.answer_start.tolist(), shard.ends.tolist(), strict=True
    ):
        if start < 0 or start > end - SHORTEST_ANSWER:
            verdicts.append("no answer")
            turns.append("")
            continue
        asked, answer = tokenizer.batch_decode([row[:start], row[start:end]])
        asked = asked.rsplit("<|im_end|>", 1)[0]
        turn = last_turn(asked).strip()
        turns.append(turn)
        if len(turn) < 4:
            verdicts.append("empty question")
        else:
            verdicts.append("shared text" if forbidden.hits(turn, answer) else "kept")
    return verdicts, turns


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--against", type=Path, nargs="*", default=[])
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    texts = [text for path in arguments.against for text in read_strings(path)]
    forbidden = Forbidden.from_texts(texts)
    paths = sorted(arguments.data.glob("*-[0-9][0-9][0-9].safetensors"))
    judge = partial(judge_shard, model=arguments.model, forbidden=forbidden)
    with get_context("spawn").Pool(arguments.processes) as pool:
        judged = pool.map(judge, paths, chunksize=1)

    seen: set[str] = set()
    counts: Counter[str] = Counter()
    keep: dict[str, Tensor] = {}
    for path, (verdicts, turns) in zip(paths, judged, strict=True):
        flags = []
        for verdict, turn in zip(verdicts, turns, strict=True):
            final = "repeated question" if verdict == "kept" and turn in seen else verdict
            seen.add(turn)
            counts[final] += 1
            flags.append(final == "kept")
        keep[path.stem] = torch.tensor(flags)
    save_file(keep, arguments.data / "keep.safetensors")
    report = {
        "rows": dict(counts),
        "reference_files": [path.name for path in arguments.against],
        "reference_texts": len(texts),
        "reference_13_grams": len(forbidden.grams),
    }
    (arguments.data / "clean.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
