"""Where two greedy outputs of the same prompt part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from specgauge.analyze.records import CellRecord


@dataclass(frozen=True)
class Divergence:
    """The first token in which a request's output differs from the other side's."""

    index: int
    position: int
    """In the output, from 0; all tokens before it are alike."""


def outputs(chunks: pd.DataFrame) -> dict[int, list[int]]:
    """Token ids of each request's output, by request index; none where no ids were recorded."""
    found: dict[int, list[int]] = {}
    ordered = chunks.sort_values(["request", "seq"], kind="stable")
    for request, ids in zip(ordered["request"], ordered["token_ids"], strict=True):
        if ids is not None:
            found.setdefault(int(request), []).extend(int(token) for token in ids)
    return found


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Position of the first token that differs; None if the shorter one is the other's begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((position for position, (a, b) in pairs if a != b), None)


def compare(one: CellRecord, other: CellRecord) -> tuple[list[Divergence], int]:
    """(divergences by index, requests compared) of two cells that sent the same requests.

    Requests pair by index and prompt; those that did not end well on both sides are left out.
    """
    sides = [_prompts(cell) for cell in (one, other)]
    texts = [outputs(cell.chunks) for cell in (one, other)]
    found, compared = [], 0
    for index, prompt in sorted(sides[0].items()):
        if sides[1].get(index) != prompt or any(index not in text for text in texts):
            continue
        compared += 1
        position = first_difference(texts[0][index], texts[1][index])
        if position is not None:
            found.append(Divergence(index, position))
    return found, compared


def _prompts(cell: CellRecord) -> dict[int, str]:
    ok = cell.requests[cell.requests["state"] == "ok"]
    return {int(i): str(p) for i, p in zip(ok["index"], ok["prompt_id"], strict=True)}
