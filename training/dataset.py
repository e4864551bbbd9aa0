"""Packs generated rows into fixed-length training rows and chooses the draft vocabulary."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor

from training.shards import Shard

if TYPE_CHECKING:
    from pathlib import Path

HELD_OUT_EVERY = 64
"""One group in this many is never trained on."""
OPEN_ROWS = 48
"""Rows that may still take a sequence while packing: more packs tighter and slower."""


@dataclass(frozen=True)
class Sequence:
    """One conversation: int64 token ids, where the answer starts, and its labels."""

    tokens: Tensor
    answer_start: int
    kind: str
    greedy: bool


@dataclass(frozen=True)
class Packed:
    """Sequences side by side in rows; all tensors ``[rows, length]``.

    tokens: ids, 0 in the unused tail; document: which of `sequences`, -1 in the tail;
    position: index within the sequence; answer: the token belongs to the answer.
    """

    tokens: Tensor
    document: Tensor
    position: Tensor
    answer: Tensor
    sequences: list[Sequence]

    def __len__(self) -> int:
        return self.tokens.shape[0]


def read_sequences(folder: Path, share: float = 1.0) -> tuple[list[Sequence], list[Sequence]]:
    """Kept rows of a generated folder, as (training, held out); `share` thins the training part."""
    keep = load_file(folder / "keep.safetensors")
    training: list[Sequence] = []
    held_out: list[Sequence] = []
    for name in sorted(keep):
        shard = Shard.load(folder / f"{name}.safetensors")
        stride = 1 / share
        for row in keep[name].nonzero()[:, 0].tolist():
            sequence = Sequence(
                tokens=shard.tokens[row, : shard.ends[row]].long(),
                answer_start=int(shard.answer_start[row]),
                kind=shard.kinds[shard.kind[row]],
                greedy=bool(shard.greedy[row]),
            )
            if int(shard.group[row]) % HELD_OUT_EVERY == 0:
                held_out.append(sequence)
            elif int(row / stride) != int((row - 1) / stride):
                training.append(sequence)
    return training, held_out


def pack(sequences: list[Sequence], length: int, seed: int) -> Packed:
    """First-fit packing in random order; sequences longer than `length` are left out."""
    order = list(range(len(sequences)))
    random.Random(seed).shuffle(order)
    rows: list[list[int]] = []
    open_rows: list[tuple[int, int]] = []  # (free tokens, index into rows)
    for index in order:
        need = len(sequences[index].tokens)
        if need > length:
            continue
        for slot, (free, row) in enumerate(open_rows):
            if need <= free:
                rows[row].append(index)
                open_rows[slot] = (free - need, row)
                break
        else:
            rows.append([index])
            open_rows.append((length - need, len(rows) - 1))
            if len(open_rows) > OPEN_ROWS:
                open_rows.remove(min(open_rows))
    shape = (len(rows), length)
    tokens = torch.zeros(shape, dtype=torch.int64)
    document = torch.full(shape, -1, dtype=torch.int32)
    position = torch.zeros(shape, dtype=torch.int32)
    answer = torch.zeros(shape, dtype=torch.bool)
    for row, members in enumerate(rows):
        start = 0
        for index in members:
            ids, first = sequences[index].tokens, sequences[index].answer_start
            end = start + len(ids)
            tokens[row, start:end] = ids
            document[row, start:end] = index
            position[row, start:end] = torch.arange(len(ids), dtype=torch.int32)
            answer[row, start + first : end] = True
            start = end
    return Packed(tokens, document, position, answer, sequences)


def count_answer_tokens(sequences: list[Sequence], vocab_size: int) -> Tensor:
    """How often each token id occurs in answers: int64 ``[vocab]``."""
    answers = torch.cat([sequence.tokens[sequence.answer_start :] for sequence in sequences])
    return torch.bincount(answers, minlength=vocab_size)


def choose_draft_vocabulary(counts: Tensor, size: int) -> Tensor:
    """The `size` most frequent target ids, ascending: draft id i stands for target id result[i]."""
    return counts.topk(size).indices.sort().values
