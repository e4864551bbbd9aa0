"""The training-time test must compute what a server computes, step by step."""

from __future__ import annotations

import torch
from torch import Tensor

from training.attention import Mask, attend
from training.drafter import Batch, Head, HeadShape, initialise, run_chain
from training.target import Target, forward_packed, rope_angles, rotate
from training.tests.tiny import SHAPE, random_target

STEPS = 3


def make_head(target: Target) -> tuple[Head, Tensor]:
    draft_ids = torch.arange(0, 64, 2)
    head = Head(SHAPE, HeadShape((0, 2, 4), 32, 24))
    initialise(head, target, draft_ids, seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in head.parameters():  # no branch may stay at its zero start
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return head, draft_ids


def serve(head: Head, target: Target, tokens: Tensor, start: int, steps: int) -> list[Tensor]:
    """Draft as vLLM's proposer does: one pass over the context, then one token at a time.

    Returns the draft logits of each step; `tokens` supplies the chain (as if all were accepted).
    """
    length = start + 1
    causal = Mask(dense=torch.ones(length, length).tril().bool()[None, None])
    taps, _ = forward_packed(
        target, tokens[None, :length], torch.arange(length)[None], causal, head.shape.taps
    )
    hidden = head.mix_taps(taps)
    positions = torch.arange(length)
    ids = tokens[1 : length + 1][None]
    keys = values = torch.zeros(1, SHAPE.num_key_value_heads, 0, SHAPE.head_dim)
    logits = []
    for step in range(steps):
        embedded = target.embedding[ids]
        joined = torch.cat([head.input_layernorm(embedded), head.hidden_norm(hidden)], -1)
        cos, sin = (part[None, :, None] for part in rope_angles(positions, SHAPE))
        q, k, v = (
            projection(joined).unflatten(-1, (-1, SHAPE.head_dim))
            for projection in (head.q_proj, head.k_proj, head.v_proj)
        )
        q, k = rotate(q, cos, sin).transpose(1, 2), rotate(k, cos, sin).transpose(1, 2)
        keys = torch.cat([keys, k], 2)
        values = torch.cat([values, v.transpose(1, 2)], 2)
        offset = keys.shape[2] - q.shape[2]
        seen = torch.ones(q.shape[2], keys.shape[2]).tril(offset).bool()[None, None]
        mixed = attend(q, keys, values, Mask(dense=seen)).transpose(1, 2).flatten(-2)
        hidden = hidden + head.o_proj(mixed)
        normed = head.post_attention_layernorm(hidden)
        gated = torch.nn.functional.silu(head.gate_proj(normed)) * head.up_proj(normed)
        hidden = (hidden + head.down_proj(gated))[:, -1:]
        logits.append(head.lm_head(head.norm(hidden))[0, 0])
        positions = positions[-1:] + 1
        ids = tokens[start + 2 + step][None, None]
    return logits


def test_training_matches_serving_in_packed_rows() -> None:
    target = random_target()
    head, draft_ids = make_head(target)
    generator = torch.Generator().manual_seed(5)
    first = torch.randint(0, 64, (14,), generator=generator)
    second = torch.randint(0, 64, (17,), generator=generator)
    tokens = torch.cat([first, second, torch.zeros(1, dtype=torch.int64)])[None]
    document = torch.tensor([0] * 14 + [1] * 17 + [-1])[None]
    position = torch.tensor([*range(14), *range(17), 0])[None]
    start = torch.tensor([[5, 8, 16, 22, 30]])
    used = torch.tensor([[True, True, True, True, False]])
    draft_index = torch.full((64,), -1)
    draft_index[draft_ids] = torch.arange(32)
    batch = Batch(tokens, document, position, start, used)
    with torch.no_grad():
        steps = run_chain(
            head, target, target.embedding[draft_ids], draft_index, batch, STEPS, flex=False
        )
        for column, (ids, begin) in enumerate([(first, 5), (first, 8), (second, 2), (second, 8)]):
            for step, logits in enumerate(serve(head, target, ids, begin, STEPS)):
                everything = Mask(dense=torch.ones(len(ids), len(ids)).tril().bool()[None, None])
                _, final = forward_packed(
                    target, ids[None], torch.arange(len(ids))[None], everything, (0,)
                )
                teacher = final[0, begin + 1 + step] @ target.embedding[draft_ids].T
                expected = -(teacher.softmax(-1) * logits.log_softmax(-1)).sum()
                torch.testing.assert_close(steps[step].loss[0, column], expected)
                wanted = draft_index[ids[begin + 2 + step]]
                assert bool(steps[step].correct[0, column]) == bool(logits.argmax() == wanted)
    assert not steps[0].valid[0, 4]


def test_predictions_past_the_document_are_not_valid() -> None:
    target = random_target()
    head, draft_ids = make_head(target)
    tokens = torch.randint(0, 64, (1, 12), generator=torch.Generator().manual_seed(6))
    document = torch.tensor([[0] * 6 + [1] * 6])
    position = torch.tensor([[*range(6), *range(6)]])
    start = torch.tensor([[2, 3, 4, 8]])
    batch = Batch(tokens, document, position, start, torch.ones(1, 4, dtype=torch.bool))
    draft_index = torch.full((64,), -1)
    draft_index[draft_ids] = torch.arange(32)
    with torch.no_grad():
        steps = run_chain(
            head, target, target.embedding[draft_ids], draft_index, batch, STEPS, flex=False
        )
    assert [step.valid[0].tolist() for step in steps] == [
        [True, True, False, True],
        [True, False, False, True],
        [False, False, False, False],
    ]
