"""Generate training rows with the target model itself: its questions, its passages, its answers.

    python -m training.generate --model FOLDER --out FOLDER --short-batches 20 --long-batches 1

Short rows are a question and its answer. Long rows are a passage of the model's own, a request
(summary or question) about it, and the answer. A batch whose file exists is skipped, so a stopped
run continues where it was; file n depends on the seed and on n alone.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training import prompts
from training.decode import Decoder, Rows, Script
from training.shards import Shard, concatenate
from training.target import Target, load_target

KINDS = [*prompts.SHORT_KINDS, "summary", "question"]
GREEDY_SHARE = 0.7
"""Share of rows answered at temperature 0, the temperature that is measured later."""
WARM = 0.7
"""Temperature of the other rows' answers."""
QUESTION_LIMIT = 24
LONG_ANSWER = 192
PASSAGE_CHARS = (800, 4600)
"""Passages are cut to a uniformly drawn length; some 4.4 characters make a token."""


@dataclass
class Writer:
    """What the batch functions share: model, tokenizer, template pieces, sizes."""

    target: Target
    tokenizer: Any
    script: Script
    seed: int

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids with the template's special tokens recognised and none added."""
        return self.tokenizer(texts, add_special_tokens=False)["input_ids"]

    def before(self, user_text: str) -> str:
        """The template up to and including the user's text so far."""
        return prompts.template_around(self.tokenizer, user_text)[0]

    def after(self) -> str:
        """The template from the end of the user's turn to the start of the answer."""
        return prompts.template_around(self.tokenizer, "")[1]


def make_writer(model: Path, device: torch.device, dtype: torch.dtype, seed: int) -> Writer:
    """Load model and tokenizer; find the template's tail and the tokens that end in "?"."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    tail = tokenizer.encode(prompts.template_around(tokenizer, "")[1], add_special_tokens=False)
    texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))])
    marks = [i for i, text in enumerate(texts) if text.endswith("?")]
    return Writer(load_target(model, device, dtype), tokenizer, Script(tail, marks), seed)


def short_batch(writer: Writer, decoder: Decoder, index: int) -> Shard:
    """Questions and answers for one batch of short rows."""
    random_ = random.Random(f"{writer.seed}/short/{index}")
    openings = [prompts.draw_short(random_) for _ in range(decoder.rows)]
    encoded = writer.encode([writer.before(opening.text) for opening in openings])
    everyone = torch.ones(decoder.rows, dtype=torch.bool)
    batch = Rows(
        prompts=encoded,
        asking=everyone,
        ask_limit=torch.tensor([opening.limit for opening in openings]),
        endless=~everyone,
        stop_at_question_mark=torch.tensor([opening.kind == "facts" for opening in openings]),
        temperature=_answer_temperatures(decoder.rows, random_),
    )
    made = decoder.generate(
        batch, decoder.length - min(map(len, encoded)), seed=random_.getrandbits(40)
    )
    return Shard(
        tokens=made.tokens,
        ends=made.ends,
        answer_start=made.answer_start,
        kind=torch.tensor([KINDS.index(opening.kind) for opening in openings]),
        greedy=batch.temperature == 0,
        group=torch.arange(decoder.rows) + index * decoder.rows,
        kinds=KINDS,
    )


def long_batch(writer: Writer, decoder: Decoder, index: int, uses: int) -> Shard:
    """One batch of passages, each used in `uses` rows with its own cut and request."""
    random_ = random.Random(f"{writer.seed}/long/{index}")
    rows = decoder.rows
    longest_turn = decoder.length - LONG_ANSWER - QUESTION_LIMIT - len(writer.script.tail)
    openings = [prompts.draw_passage(random_) for _ in range(rows)]
    encoded = writer.encode(
        [
            writer.before(start)
            if request is None
            else writer.before(request) + writer.after() + start
            for request, start in openings
        ]
    )
    everyone = torch.ones(rows, dtype=torch.bool)
    no_limit = torch.full((rows,), decoder.length)
    batch = Rows(encoded, everyone, no_limit, everyone, ~everyone, torch.ones(rows))
    made = decoder.generate(
        batch, longest_turn - max(map(len, encoded)), seed=random_.getrandbits(40)
    )
    rows_made = zip(made.tokens.tolist(), made.ends.tolist(), strict=True)
    decoded = writer.tokenizer.batch_decode([row[:end] for row, end in rows_made])
    passages = [prompts.last_turn(text) for text in decoded]

    requests: list[tuple[list[int], str, int]] = []
    for use in range(uses):
        kinds = ["summary" if (use + row) % 2 else "question" for row in range(rows)]
        texts = []
        for passage, kind in zip(passages, kinds, strict=True):
            cut = prompts.cut_passage(passage, random_.randint(*PASSAGE_CHARS))
            if kind == "summary":
                texts.append(writer.before(prompts.summary_turn(cut, random_)) + writer.after())
            else:
                texts.append(writer.before(prompts.question_turn(cut, random_)))
        for row, ids in enumerate(writer.encode(texts)):
            if len(ids) <= longest_turn:
                requests.append((ids, kinds[row], row))
    # Whole batches of rows of like length: less padding, and a shorter stretch of cache to read.
    random_.shuffle(requests)
    requests = requests[: len(requests) // rows * rows]
    requests.sort(key=lambda request: len(request[0]))
    parts = []
    for start in range(0, len(requests), rows):
        chosen = requests[start : start + rows]
        asking = torch.tensor([kind == "question" for _, kind, _ in chosen])
        batch = Rows(
            prompts=[ids for ids, _, _ in chosen],
            asking=asking,
            ask_limit=torch.full((rows,), QUESTION_LIMIT),
            endless=~everyone,
            stop_at_question_mark=asking,
            temperature=_answer_temperatures(rows, random_),
        )
        steps = QUESTION_LIMIT + len(writer.script.tail) + LONG_ANSWER
        made = decoder.generate(batch, steps, seed=random_.getrandbits(40))
        parts.append(
            Shard(
                tokens=made.tokens,
                ends=made.ends,
                answer_start=made.answer_start,
                kind=torch.tensor([KINDS.index(kind) for _, kind, _ in chosen]),
                greedy=batch.temperature == 0,
                group=torch.tensor([row for _, _, row in chosen]) + index * rows,
                kinds=KINDS,
            )
        )
    return concatenate(parts)


def _answer_temperatures(rows: int, random_: random.Random) -> torch.Tensor:
    return torch.tensor([0.0 if random_.random() < GREEDY_SHARE else WARM for _ in range(rows)])


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--short-batches", type=int, default=20)
    parser.add_argument("--short-rows", type=int, default=4096)
    parser.add_argument("--short-length", type=int, default=340)
    parser.add_argument("--long-batches", type=int, default=1)
    parser.add_argument("--long-rows", type=int, default=2560)
    parser.add_argument("--long-length", type=int, default=1360)
    parser.add_argument("--uses", type=int, default=4, help="rows made from one passage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(arguments.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    writer = make_writer(arguments.model, device, dtype, arguments.seed)

    jobs = [("short", index) for index in range(arguments.short_batches)]
    jobs += [("long", index) for index in range(arguments.long_batches)]
    decoder: Decoder | None = None
    decoder_kind = ""
    for kind, index in jobs:
        path = arguments.out / f"{kind}-{index:03d}.safetensors"
        if path.exists():
            continue
        if decoder is None or decoder_kind != kind:
            decoder, decoder_kind = None, kind  # free the old cache before taking the new one
            gc.collect()
            torch.cuda.empty_cache()
            rows, length = (
                (arguments.short_rows, arguments.short_length)
                if kind == "short"
                else (arguments.long_rows, arguments.long_length)
            )
            decoder = Decoder(writer.target, writer.script, rows, length)
        started = time.monotonic()
        if kind == "short":
            shard = short_batch(writer, decoder, index)
        else:
            shard = long_batch(writer, decoder, index, arguments.uses)
        shard.save(path)
        seconds = time.monotonic() - started
        answers = int((shard.ends - shard.answer_start)[shard.answer_start > 0].clamp(min=0).sum())
        print(
            f"{path.name}: {len(shard.ends)} rows, {answers} answer tokens, "
            f"{int(shard.ends.sum())} tokens, {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
