"""Finds text that a row shares with prompts it must not contain."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GRAM = 13
"""Words in a row that count as shared text, the size that GPT-3's contamination study used
(Brown et al. 2020, arXiv 2005.14165, appendix C)."""
SHORTEST = 5
"""Prompts shorter than `GRAM` words must not occur whole; below this, only as the whole turn."""


def split_words(text: str) -> list[str]:
    """Lower-case words and numbers, punctuation dropped."""
    return re.findall(r"\w+", text.lower())


def read_strings(path: Path) -> list[str]:
    """Every string value in a JSON Lines file, at any depth."""

    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from strings(item)

    lines = path.read_text(encoding="utf-8").splitlines()
    return [text for line in lines if line.strip() for text in strings(json.loads(line))]


@dataclass(frozen=True)
class Forbidden:
    """Word sequences that must not occur: 13-grams, short prompts, and whole turns."""

    grams: frozenset[str]
    short: dict[int, frozenset[str]]
    turns: frozenset[str]

    @classmethod
    def from_texts(cls, texts: list[str]) -> Forbidden:
        """Index the reference texts."""
        split = [split_words(text) for text in texts]
        grams = {gram for words in split for gram in _grams(words, GRAM)}
        short = {
            size: frozenset(" ".join(words) for words in split if len(words) == size)
            for size in range(SHORTEST, GRAM)
        }
        return cls(frozenset(grams), short, frozenset(" ".join(words) for words in split))

    def hits(self, user_turn: str, answer: str) -> bool:
        """Whether the row shares a 13-gram, contains a short prompt, or asks a whole prompt."""
        asked = split_words(user_turn)
        if " ".join(asked) in self.turns:
            return True
        sides = (asked, split_words(answer))
        if any(gram in self.grams for words in sides for gram in _grams(words, GRAM)):
            return True
        return any(
            gram in texts for size, texts in self.short.items() for gram in _grams(asked, size)
        )


def _grams(words: list[str], size: int) -> Iterator[str]:
    return (" ".join(words[i : i + size]) for i in range(len(words) - size + 1))
