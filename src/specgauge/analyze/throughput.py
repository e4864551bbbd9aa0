"""Throughput of a cell: tokens per second over the whole of it, and with its batch full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

FULL_BATCH_REQUESTS = 4
"""Full-batch throughput needs this many requests per slot: with fewer, most of the cell is the
first wave and the drain, and what is left is no steady state."""


@dataclass(frozen=True)
class Span:
    """From ``t0`` to ``t1`` on the cells' clock, seconds."""

    t0: float
    t1: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.t1 - self.t0


def duration(requests: pd.DataFrame) -> Span | None:
    """From the first send to the last chunk with a token; None if nothing came back."""
    first, last = requests["t_send"].min(), requests["t_last"].max()
    if pd.isna(first) or pd.isna(last) or last <= first:
        return None
    return Span(float(first), float(last))


def output_tok_s(requests: pd.DataFrame) -> float | None:
    """Output tokens of all requests / duration."""
    span = duration(requests)
    return None if span is None else float(requests["output_tokens"].sum()) / span.seconds


def total_tok_s(requests: pd.DataFrame) -> float | None:
    """Prompt and output tokens of all requests that gave one / duration."""
    span = duration(requests)
    if span is None:
        return None
    begun = requests[requests["t_first"].notna()]
    tokens = float(begun["prompt_tokens"].sum()) + float(requests["output_tokens"].sum())
    return tokens / span.seconds


def full_batch(requests: pd.DataFrame, concurrency: int | None) -> Span | None:
    """The span in which every slot was busy, closed loads only.

    From the c-th first token until the first slot that finds no successor: the earliest among
    the slots' last chunks.  None with fewer than ``FULL_BATCH_REQUESTS`` requests a slot.
    """
    if concurrency is None or len(requests) < FULL_BATCH_REQUESTS * concurrency:
        return None
    firsts = np.sort(requests["t_first"].dropna().to_numpy(dtype=np.float64))
    slots = requests.dropna(subset=["t_last"]).groupby("slot")["t_last"].max()
    if firsts.size < concurrency or len(slots) < concurrency:
        return None
    t0, t1 = float(firsts[concurrency - 1]), float(slots.min())
    return Span(t0, t1) if t1 > t0 else None


def full_batch_tok_s(
    requests: pd.DataFrame, chunks: pd.DataFrame, concurrency: int | None
) -> float | None:
    """Output tokens per second while every slot was busy; None where ``full_batch`` is."""
    span = full_batch(requests, concurrency)
    if span is None:
        return None
    inside = chunks[(chunks["t"] > span.t0) & (chunks["t"] <= span.t1)]
    return float(inside["tokens"].sum()) / span.seconds
