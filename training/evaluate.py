"""Measure a drafter on a running vLLM server: acceptance by category and by position.

    python -m training.evaluate --url http://127.0.0.1:8000 --model FOLDER \\
        --prompts question.jsonl --out measured.json

First turns with the chat template, temperature 0, a fixed number of tokens (`ignore_eos`). The
counters of `/metrics` are read before and after each category, so a server that serves nobody else
is needed. Without speculation (no counters) only the answers are recorded, for `compare.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from training.acceptance import Acceptance
from training.prompts import template_around

if TYPE_CHECKING:
    from collections.abc import Callable

END_OF_TURN = 2
COUNTER = re.compile(r"^vllm:spec_decode_num_(\w+?)_total{(.*)} (\S+)$")


@dataclass
class Answer:
    """One streamed answer: token ids by chunk; the first chunk is the prefill's."""

    question: int
    category: str
    chunks: list[list[int]]

    @property
    def tokens(self) -> list[int]:
        """All token ids in order."""
        return [token for chunk in self.chunks for token in chunk]


def counters(text: str) -> Acceptance:
    """Acceptance counters from a Prometheus page, summed over engines; empty if there are none."""
    drafts, positions = 0, defaultdict(int)
    for line in text.splitlines():
        if found := COUNTER.match(line):
            name, labels, value = found[1], found[2], int(float(found[3]))
            if name == "drafts":
                drafts += value
            elif name == "accepted_tokens_per_pos":
                position = re.search(r'position="(\d+)"', labels)
                positions[int(position[1] if position else 0)] += value
    return Acceptance(drafts, [positions[index] for index in sorted(positions)])


def difference(after: Acceptance, before: Acceptance) -> Acceptance:
    """Counts that came between two readings."""
    previous = before.accepted or [0] * len(after.accepted)
    accepted = [a - b for a, b in zip(after.accepted, previous, strict=True)]
    return Acceptance(after.drafts - before.drafts, accepted)


def before_end(answers: list[Answer]) -> tuple[int, int]:
    """Steps and tokens of the chunks that begin before the model ended its turn.

    The first chunk is left out: no draft preceded it.
    """
    steps = tokens = 0
    for answer in answers:
        seen = list(answer.chunks[0])
        for chunk in answer.chunks[1:]:
            if END_OF_TURN in seen:
                break
            steps += 1
            tokens += len(chunk)
            seen += chunk
    return steps, tokens


async def ask(
    session: aiohttp.ClientSession, url: str, name: str, prompt: list[int], tokens: int
) -> list[list[int]]:
    """Stream one completion; returns token ids by chunk. Raises RuntimeError on a short answer."""
    body = {
        "model": name,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "return_token_ids": True,
        "ignore_eos": True,
    }
    chunks: list[list[int]] = []
    async with session.post(f"{url}/v1/completions", json=body) as response:
        response.raise_for_status()
        async for raw in response.content:
            line = raw.decode().strip()
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    if choice.get("token_ids"):
                        chunks.append(choice["token_ids"])
    if sum(map(len, chunks)) != tokens:
        raise RuntimeError(f"{sum(map(len, chunks))} tokens came instead of {tokens}")
    return chunks


async def measure(
    url: str,
    questions: list[dict[str, Any]],
    encoded: list[list[int]],
    tokens: int,
    concurrency: int,
    keep: Callable[[list[Answer], dict[str, Acceptance]], None],
) -> None:
    """Ask category after category; `keep` gets all answers and counters so far after each."""
    answers: list[Answer] = []
    found: dict[str, Acceptance] = {}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=600)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def read(path: str) -> str:
            async with session.get(url + path) as response:
                response.raise_for_status()
                return await response.text()

        name = json.loads(await read("/v1/models"))["data"][0]["id"]
        limit = asyncio.Semaphore(concurrency)

        async def one(question: dict[str, Any], prompt: list[int]) -> Answer:
            async with limit:
                chunks = await ask(session, url, name, prompt, tokens)
                return Answer(question["question_id"], question["category"], chunks)

        for category in dict.fromkeys(question["category"] for question in questions):
            members = [
                one(question, prompt)
                for question, prompt in zip(questions, encoded, strict=True)
                if question["category"] == category
            ]
            before = counters(await read("/metrics"))
            began = time.monotonic()
            answers += await asyncio.gather(*members)
            found[category] = difference(counters(await read("/metrics")), before)
            seconds = time.monotonic() - began
            print(
                f"{category:15} {len(members):3} prompts {seconds:6.1f} s "
                f"length {found[category].length:.3f}",
                flush=True,
            )
            keep(answers, found)


def report(answers: list[Answer], found: dict[str, Acceptance]) -> dict[str, Any]:
    """Everything measured, as plain values; "all" pools the counts of all categories."""
    total = sum(found.values(), Acceptance())
    result: dict[str, Any] = {}
    for category, acceptance in {"all": total, **found}.items():
        own = [answer for answer in answers if category in ("all", answer.category)]
        steps, tokens = before_end(own)
        result[category] = {
            "prompts": len(own),
            **acceptance.to_dict(),
            "before_end_of_turn": {
                "steps": steps,
                "tokens_per_step": round(tokens / steps, 4) if steps else None,
            },
        }
    return result


def table(result: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    lines = [
        "| category | prompts | acceptance length | by position | before the end of turn |",
        "|---|---|---|---|---|",
    ]
    for category, row in result.items():
        rates = " / ".join(f"{rate:.3f}" for rate in row["rates"])
        length = "-" if row["length"] is None else f"{row['length']:.2f}"
        ended = row["before_end_of_turn"]["tokens_per_step"]
        lines.append(
            f"| {category} | {row['prompts']} | {length} | {rates} | "
            f"{'-' if ended is None else f'{ended:.2f}'} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", type=Path, required=True, help="for the tokenizer")
    parser.add_argument("--prompts", type=Path, required=True, help="JSON Lines: category, turns")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--every", type=int, default=1, help="only every n-th prompt")
    arguments = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    lines = arguments.prompts.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines][:: arguments.every]
    texts = ["".join(template_around(tokenizer, question["turns"][0])) for question in questions]
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]

    def keep(answers: list[Answer], found: dict[str, Acceptance]) -> None:
        result = {
            "tokens": arguments.tokens,
            "concurrency": arguments.concurrency,
            "acceptance": report(answers, found),
            "answers": {str(answer.question): answer.tokens for answer in answers},
        }
        arguments.out.write_text(json.dumps(result) + "\n")

    asyncio.run(
        measure(arguments.url, questions, encoded, arguments.tokens, arguments.concurrency, keep)
    )
    print(table(json.loads(arguments.out.read_text())["acceptance"]))


if __name__ == "__main__":
    main()
