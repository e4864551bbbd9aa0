"""Turns the task words of `seeds.py` into prompts: the chat template up to an open user turn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training import seeds

if TYPE_CHECKING:
    import random

SHORT_KINDS = {
    "free": 16,
    "chat": 22,
    "code": 8,
    "maths": 17,
    "facts": 14,
    "lists": 9,
    "translate": 14,
}
"""Kinds of short rows and their shares in percent."""

PLACEHOLDERS = {
    "topic": seeds.words(seeds.TOPICS),
    "name": seeds.words(seeds.NAMES),
    "role": seeds.words(seeds.ROLES),
    "language": seeds.words(seeds.LANGUAGES),
    "place": seeds.words(seeds.PLACES),
    "number": [str(n) for n in (*range(2, 60), 75, 80, 96, 100, 120, 150, 200, 240, 500, 1000)],
    "age": [str(n) for n in range(18, 95)],
}
OPENERS = {
    "chat": seeds.words(seeds.CHAT),
    "code": seeds.words(seeds.CODE),
    "maths": seeds.words(seeds.MATHS),
    "facts": seeds.words(seeds.FACTS),
    "lists": seeds.words(seeds.LISTS),
}


@dataclass(frozen=True)
class Opening:
    """A user turn that the model continues, and what kind of task it opens."""

    kind: str
    text: str
    limit: int
    """Most tokens that the model may add to the turn."""


def fill(template: str, random_: random.Random) -> str:
    """Replace each ``{placeholder}`` by a random entry of its list."""
    return re.sub(r"{(\w+)}", lambda found: random_.choice(PLACEHOLDERS[found[1]]), template)


def draw_short(random_: random.Random) -> Opening:
    """Draw one opening of a short row."""
    kind = random_.choices(list(SHORT_KINDS), list(SHORT_KINDS.values()))[0]
    if kind == "free":
        return Opening(kind, "", 120)
    if kind == "translate":
        order = random_.choice(seeds.words(seeds.TRANSLATE))
        start = random_.choice(seeds.words(seeds.GERMAN))
        plain = "English to German" in order or "French" in order
        return Opening(kind, order if plain else f"{order} {start}", random_.randint(8, 60))
    text = fill(random_.choice(OPENERS[kind]), random_)
    return Opening(kind, text, {"facts": 24, "lists": 160}.get(kind, 100))


def draw_passage(random_: random.Random) -> tuple[str | None, str]:
    """Draw a request for an article (None: the passage is the user's own) and its first words."""
    block = random_.choice([seeds.NEWS, seeds.PASSAGES])
    text = fill(random_.choice(seeds.words(block)), random_)
    asks = random_.random() < 0.6
    request = fill(random_.choice(seeds.words(seeds.ARTICLE_REQUESTS)), random_) if asks else None
    return request, text[0].upper() + text[1:]


def last_turn(text: str) -> str:
    """The text of the last turn in a decoded conversation, without its role line."""
    return text.rsplit("<|im_start|>", 1)[-1].partition("\n")[2]


def cut_passage(text: str, most_chars: int) -> str:
    """Cut at the last sentence end before `most_chars` characters, else at a word."""
    head = text[:most_chars]
    ends = [found.end() for found in re.finditer(r"[.!?][\"')\]]?(?=\s)", head)]
    late = [end for end in ends if end > most_chars // 3]
    return (head[: late[-1]] if late else head.rsplit(" ", 1)[0]).strip()


def summary_turn(passage: str, random_: random.Random) -> str:
    """A complete user turn that asks for a summary."""
    opener = random_.choice(seeds.words(seeds.SUMMARY_OPENERS))
    return f"{opener.rstrip()} {passage}" if opener.endswith(" ") else f"{opener} {passage}"


def question_turn(passage: str, random_: random.Random) -> str:
    """A user turn with a passage and the first words of a question about it."""
    return f"{passage}\n{random_.choice(seeds.words(seeds.PASSAGE_QUESTIONS))}"


def template_around(tokenizer: object, user_text: str) -> tuple[str, str]:
    """The chat template before and after the user's text, taken from the template itself."""
    marker = "\u0001marker\u0001"
    whole = tokenizer.apply_chat_template(  # type: ignore[attr-defined]
        [{"role": "user", "content": marker}], tokenize=False, add_generation_prompt=True
    )
    before, after = whole.split(marker)
    return before + user_text, after
