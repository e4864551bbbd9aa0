"""Token ids out of nothing: a text's, and the ones that the "model" writes.

Both are pure functions of their input, so that greedy output is the same in every variant and at
every batch size, unless a divergence is planted.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

EOS = 2
_FIRST_ORDINARY = 16
"""Ids below are kept for special tokens: output never holds one by chance."""
_CHARACTERS_PER_TOKEN = 4
_MASK = (1 << 64) - 1


def tokenize(text: str, vocabulary: int) -> list[int]:
    """One id per four characters: equal beginnings of texts have equal beginnings of ids."""
    pieces = (
        text[i : i + _CHARACTERS_PER_TOKEN] for i in range(0, len(text), _CHARACTERS_PER_TOKEN)
    )
    return [_ordinary(_mix(hash_bytes(p.encode("utf-8", "replace"))), vocabulary) for p in pieces]


def render_chat(messages: Sequence[dict[str, Any]], add_generation_prompt: bool = True) -> str:
    """Messages in the ChatML template that small instruct models use."""
    text = "".join(
        f"<|im_start|>{m.get('role', 'user')}\n{m.get('content', '')}<|im_end|>\n" for m in messages
    )
    return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")


def token_text(token: int) -> str:
    """The text of one output token; an end token has none."""
    return "" if token == EOS else f" w{token:x}"


def hash_bytes(data: bytes) -> int:
    """64-bit hash that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def hash_prompt(token_ids: Sequence[int], seed: int) -> int:
    """64-bit hash of a prompt under a seed."""
    return hash_bytes(struct.pack(f"<q{len(token_ids)}q", seed, *token_ids))


def uniform(key: int) -> float:
    """A number in [0, 1) that belongs to ``key``."""
    return (_mix(key) >> 11) / float(1 << 53)


def output_token(key: int, position: int, vocabulary: int) -> int:
    """The token that the prompt of hash ``key`` has at an output position."""
    return _ordinary(_mix((key + (position + 1) * 0x9E3779B97F4A7C15) & _MASK), vocabulary)


def _ordinary(mixed: int, vocabulary: int) -> int:
    return _FIRST_ORDINARY + mixed % (vocabulary - _FIRST_ORDINARY)


def _mix(z: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): spreads neighbouring keys."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
