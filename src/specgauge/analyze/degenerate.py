"""Degenerate output: repetition, or text after the model's own end.  Tokens per step before it.

A drafter guesses a repetition for nothing, so speed measured on such output is no use to anyone
who does not serve it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

NGRAM = 8
"""Tokens that must come again to count as repetition: prose seldom repeats eight in a row."""
REPEATED_SHARE = 0.5
"""Of the remaining output that must consist of repeated 8-grams for it to have degenerated there:
a quotation or a list repeats some, a loop repeats nearly all."""
LEAST = 2 * NGRAM
"""8-grams that must remain: the close of a list or of a JSON object is repeated, and no loop."""

MIN_BEFORE = 0.1
"""Share of the decode chunks that must lie before the onsets for tokens per step there."""


def onset(token_ids: Sequence[int], eos: Collection[int] = ()) -> int | None:
    """Position from which the output is degenerate; None if it never is.

    The first token after an end-of-sequence token, or the begin of the first repeated 8-gram from
    which on at least half of the 8-grams have occurred before, whichever comes first.
    """
    ended = next((i + 1 for i, t in enumerate(token_ids[:-1]) if t in eos), None)
    repeated = _repetition(token_ids)
    found = [p for p in (ended, repeated) if p is not None]
    return min(found, default=None)


def _repetition(token_ids: Sequence[int]) -> int | None:
    seen: set[tuple[int, ...]] = set()
    again: list[bool] = []
    for i in range(len(token_ids) - NGRAM + 1):
        gram = tuple(token_ids[i : i + NGRAM])
        again.append(gram in seen)
        seen.add(gram)
    left = sum(again)
    for position, is_again in enumerate(again):
        rest = len(again) - position
        if is_again and rest >= LEAST and left >= REPEATED_SHARE * rest:
            return position
        left -= is_again
    return None


@dataclass(frozen=True)
class Degeneration:
    """Over a cell."""

    requests: int
    """Whose output degenerates."""
    of: int
    tokens_per_step: float
    before: float | None
    """Tokens per step over the decode chunks that end before the onset (all chunks where none);
    None if these are too few of them to tell."""

    @property
    def difference(self) -> float | None:
        """Whole / before - 1: what degenerate output adds."""
        return None if self.before is None else self.tokens_per_step / self.before - 1


def measure(chunks: pd.DataFrame, eos: Collection[int] = ()) -> Degeneration | None:
    """None without decode chunks."""
    degenerate = requests = 0
    tokens = steps = tokens_before = steps_before = 0
    for _, rows in chunks.sort_values(["request", "seq"], kind="stable").groupby("request"):
        requests += 1
        parts = [list(ids) for ids in rows["token_ids"] if ids is not None]
        begin = onset([t for part in parts for t in part], eos)
        degenerate += begin is not None
        at = 0
        for seq, part in enumerate(parts):
            at += len(part)
            if seq == 0:
                continue
            tokens, steps = tokens + len(part), steps + 1
            if begin is None or at <= begin:
                tokens_before, steps_before = tokens_before + len(part), steps_before + 1
    if not steps:
        return None
    enough = steps_before >= MIN_BEFORE * steps
    before = tokens_before / steps_before if enough and steps_before else None
    return Degeneration(degenerate, requests, tokens / steps, before)


def before(
    requests: pd.DataFrame, chunks: pd.DataFrame, eos: Collection[int] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(requests, chunks) cut at each output's onset: as if the model had ended there.

    A request that degenerates from its first chunk on is left out.
    """
    ordered = chunks.sort_values(["request", "seq"], kind="stable")
    keep: list[bool] = []
    for _, rows in ordered.groupby("request", sort=True):
        parts = [list(ids) if ids is not None else [] for ids in rows["token_ids"]]
        begin = onset([t for part in parts for t in part], eos)
        ends = np.cumsum([len(part) for part in parts])
        keep += [begin is None or bool(end <= begin) for end in ends]
    kept = ordered[np.array(keep, dtype=bool)]
    of_request = kept.groupby("request")
    left = requests[requests["index"].isin(kept["request"])].copy()
    left["t_last"] = left["index"].map(of_request["t"].max()).to_numpy()
    left["output_tokens"] = left["index"].map(of_request["tokens"].sum()).to_numpy()
    return left, kept
