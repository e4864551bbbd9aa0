"""Lock-step generation against a plain loop over the whole prefix, and the turn's script."""

from __future__ import annotations

import torch

from training.attention import Mask
from training.decode import Decoder, Rows, Script
from training.target import forward_packed
from training.tests.tiny import random_target

SCRIPT = Script(tail=[2, 40, 1, 41], question_marks=[50])


def greedy(prompt: list[int], steps: int) -> list[int]:
    target, ids = random_target(), list(prompt)
    for _ in range(steps):
        causal = Mask(dense=torch.ones(len(ids), len(ids)).tril().bool()[None, None])
        _, final = forward_packed(
            target, torch.tensor([ids]), torch.arange(len(ids))[None], causal, (0,)
        )
        ids.append(int((final[0, -1] @ target.embedding.T).argmax()))
    return ids


def test_greedy_answers_equal_a_plain_loop() -> None:
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [20]]
    no = torch.zeros(3, dtype=torch.bool)
    decoder = Decoder(random_target(), SCRIPT, rows=3, length=14)
    made = decoder.generate(Rows(prompts, no, torch.zeros(3), no, no, torch.zeros(3)), 8, seed=0)
    for row, prompt in enumerate(prompts):
        assert made.tokens[row, : len(prompt) + 8].tolist() == greedy(prompt, 8)
        assert made.answer_start[row] == len(prompt)
        assert made.ends[row] == len(prompt) + 8


def test_an_open_turn_is_closed_by_the_template() -> None:
    prompts = [[5, 6, 7], [8, 9]]
    yes, no = torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)
    decoder = Decoder(random_target(), SCRIPT, rows=2, length=24)
    rows = Rows(prompts, yes, torch.tensor([4, 2]), no, no, torch.zeros(2))
    made = decoder.generate(rows, 18, seed=1)
    for row, prompt in enumerate(prompts):
        start = int(made.answer_start[row])
        tokens = made.tokens[row].tolist()
        assert tokens[start - 4 : start] == SCRIPT.tail
        asked = start - 4 - len(prompt)
        assert 0 <= asked <= rows.ask_limit[row]
        # The answer is greedy again, given everything before it.
        end = int(made.ends[row])
        assert tokens[start:end] == greedy(tokens[:start], end - start)[start:]


def test_same_seed_same_rows() -> None:
    yes, no = torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)
    rows = Rows([[5], [6]], yes, torch.tensor([9, 9]), yes, no, torch.ones(2))
    decoder = Decoder(random_target(), SCRIPT, rows=2, length=16)
    first, second, other = (decoder.generate(rows, 12, seed=s).tokens.clone() for s in (7, 7, 8))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert not (first[:, 1:13] < 3).any()
