"""Lock-step text generation: thousands of rows advance one token a step, without a server.

Every row runs through the same small script: it continues the user's turn freely, is then made to
emit the template's tokens up to the assistant's turn, and answers until the row is full. So a
question and its answer cost one pass and one key/value cache. On a GPU each step is one CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from training.fuse import fuse
from training.target import Target, finish_layer, project_qkv, rms_norm, rope_angles

if TYPE_CHECKING:
    from collections.abc import Callable

ASKING = -1
"""Row state while the user's turn is written; state n >= 0 emits token n of the template's tail."""
OPENERS_BANNED, ALL_BANNED = 2, 3
"""Ids below the number are banned; 0 is <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>."""
MIN_P = 0.02
"""Sampled tokens have at least this share of the likeliest token's probability."""
SPAN = 128
"""Attention reads the cache up to the next multiple of this; one CUDA graph per multiple."""
PREFILL_TOKENS = 131072
"""Upper bound of the padded tokens in one prefill batch."""


@dataclass(frozen=True)
class Rows:
    """What to generate; every tensor has one entry a row unless said otherwise.

    prompts: token ids; lengths differ.
    asking: the prompt leaves the user's turn open (else it ends where the answer starts).
    ask_limit: most tokens that the free part of the user's turn may have.
    endless: forbid special tokens while asking (for passages, cut later).
    stop_at_question_mark: the user's turn ends with the first token ending in "?".
    temperature: of the answer; the user's turn is always sampled at 1.
    """

    prompts: list[list[int]]
    asking: Tensor
    ask_limit: Tensor
    endless: Tensor
    stop_at_question_mark: Tensor
    temperature: Tensor


@dataclass(frozen=True)
class Script:
    """Template facts: forced token ids after the user's turn, and ids that end in "?"."""

    tail: list[int]
    question_marks: list[int]
    end_of_turn: int = 2


@dataclass(frozen=True)
class Generated:
    """What came out, one entry a row.

    tokens: int32 ``[rows, length]``; ends: tokens in use; answer_start: index of the first answer
    token, -1 where the user's turn never ended, possibly at or after `ends` where it ended late.
    """

    tokens: Tensor
    answer_start: Tensor
    ends: Tensor


@fuse
def pick_tokens(
    logits: Tensor, uniform: Tensor, temperature: Tensor, banned_below: Tensor, min_p: float
) -> Tensor:
    """Sample with the Gumbel trick: argmax(logits + temperature * gumbel); 0 is greedy.

    logits: ``[rows, vocab]``; uniform: float32 of the same shape in [0, 1); banned_below: ids
    below it are excluded. So are tokens less likely than `min_p` times the likeliest, which keeps
    the far tail of a small model's distribution out of the text.
    """
    scores = logits.float()
    banned = torch.arange(scores.shape[1], device=scores.device)[None] < banned_below[:, None]
    scores = scores.masked_fill(banned, float("-inf"))
    floor = scores.amax(1, keepdim=True) + temperature[:, None].clamp(min=1e-4) * math.log(min_p)
    gumbel = -torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
    noisy = scores + temperature[:, None] * gumbel
    return noisy.masked_fill(scores < floor, float("-inf")).argmax(1)


@fuse
def normed_head(x: Tensor, norm: Tensor, embedding: Tensor, eps: float) -> Tensor:
    """Final norm and tied output head: ``[rows, hidden]`` to logits ``[rows, vocab]``."""
    return F.linear(rms_norm(x, norm, eps), embedding)


@fuse
def masked_softmax(scores: Tensor, visible: Tensor, scale: float) -> Tensor:
    """Softmax over keys in float32, result in scores' dtype."""
    wide = scores.float() * scale
    return wide.masked_fill(~visible, float("-inf")).softmax(-1).to(scores.dtype)


class Decoder:
    """Caches and graphs for one batch size and row length; reusable for many batches."""

    def __init__(self, target: Target, script: Script, rows: int, length: int) -> None:
        """Allocate the caches; `length` is the most tokens that a row can have."""
        self.target, self.script, self.rows, self.length = target, script, rows, length
        shape, device = target.shape, target.embedding.device
        self.device = device
        # Whole spans only: matrix products over an odd number of keys take three times as long.
        cache = (rows, shape.num_key_value_heads, -(-length // SPAN) * SPAN, shape.head_dim)
        make = lambda: torch.zeros(cache, dtype=target.embedding.dtype, device=device)  # noqa: E731
        self.keys = [make() for _ in target.layers]
        self.values = [make() for _ in target.layers]
        self.tokens = torch.zeros(rows, length, dtype=torch.int64, device=device)
        integers = lambda: torch.zeros(rows, dtype=torch.int64, device=device)  # noqa: E731
        self.position, self.state, self.asked = integers(), integers(), integers()
        self.answer_start, self.ask_limit = integers(), integers()
        self.endless = torch.zeros(rows, dtype=torch.bool, device=device)
        self.question_stop = torch.zeros_like(self.endless)
        self.temperature = torch.zeros(rows, device=device)
        self.uniform = torch.zeros(rows, shape.vocab_size, device=device)
        self.tail = torch.tensor([*script.tail, 0], device=device)
        self.is_question = torch.zeros(shape.vocab_size, dtype=torch.bool, device=device)
        self.is_question[torch.tensor(script.question_marks, dtype=torch.int64)] = True
        self.row_index = torch.arange(rows, device=device)
        self.kv_index = torch.arange(shape.num_key_value_heads, device=device)
        self.random = torch.Generator(device=device)
        self.graphs: dict[int, Callable[[], None]] = {}

    def generate(self, batch: Rows, steps: int, seed: int) -> Generated:
        """Add `steps` tokens to every row (fewer where a row is full).

        `batch` must have exactly this decoder's number of rows.
        """
        self.random.manual_seed(seed)
        lengths = torch.tensor([len(prompt) for prompt in batch.prompts], device=self.device)
        padded = [prompt + [0] * (self.length - len(prompt)) for prompt in batch.prompts]
        self.tokens.copy_(torch.tensor(padded))
        self._prefill(lengths)
        # The last prompt token is fed again by the first step: that writes the same key and value.
        self.position.copy_(lengths - 1)
        answering = len(self.script.tail)
        self.state.copy_(torch.where(batch.asking.to(self.device), ASKING, answering))
        self.answer_start.copy_(torch.where(self.state == answering, lengths, -1))
        self.asked.zero_()
        for name in ("ask_limit", "endless", "temperature"):
            getattr(self, name).copy_(getattr(batch, name))
        self.question_stop.copy_(batch.stop_at_question_mark)
        longest = int(lengths.max())
        for step in range(steps):
            furthest = min(longest + step, self.length)
            self._run_step(-(-furthest // SPAN) * SPAN)
        ends = (lengths + steps).clamp(max=self.length)
        return Generated(self.tokens.to(torch.int32), self.answer_start.clone(), ends)

    @torch.no_grad()
    def _prefill(self, lengths: Tensor) -> None:
        """Fill the caches from right-padded prompts; padding is overwritten or masked later."""
        shape = self.target.shape
        order = lengths.argsort()
        start = 0
        while start < self.rows:
            # Rows sorted by length, so padding stays small; as many as the budget allows.
            end = start + 1
            while end < self.rows:
                if int(lengths[order[end]]) * (end + 1 - start) > PREFILL_TOKENS:
                    break
                end = min(self.rows, end + max(1, (end - start) // 2))
            chosen = order[start:end]
            padded = -(-int(lengths[chosen].max()) // 32) * 32
            padded = min(padded, self.length)
            tokens = self.tokens[chosen, :padded]
            positions = torch.arange(padded, device=self.device)
            cos, sin = (part[:, None] for part in rope_angles(positions, shape))
            x = F.embedding(tokens, self.target.embedding)
            group = shape.num_attention_heads // shape.num_key_value_heads
            for index, layer in enumerate(self.target.layers):
                q, k, v = project_qkv.__wrapped__(x, layer, shape, cos, sin)
                q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
                self.keys[index][chosen, :, :padded] = k
                self.values[index][chosen, :, :padded] = v
                mixed = F.scaled_dot_product_attention(
                    q,
                    k.repeat_interleave(group, 1),
                    v.repeat_interleave(group, 1),
                    is_causal=True,
                )
                x = finish_layer.__wrapped__(x, mixed.transpose(1, 2).flatten(-2), layer, shape)
            start = end

    def _run_step(self, span: int) -> None:
        if self.device.type != "cuda":
            self.uniform.uniform_(generator=self.random)
            self._step(span)
            return
        if span not in self.graphs:
            self.graphs[span] = self._capture(span)
        self.uniform.uniform_(generator=self.random)
        self.graphs[span]()

    def _capture(self, span: int) -> Callable[[], None]:
        """Warm up (compiles) without keeping the effects, then record the step as a graph."""
        kept = {
            name: getattr(self, name).clone()
            for name in ("tokens", "position", "state", "asked", "answer_start")
        }
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step(span)
        torch.cuda.current_stream().wait_stream(stream)
        for name, value in kept.items():
            getattr(self, name).copy_(value)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(span)
        return graph.replay

    @torch.no_grad()
    def _step(self, span: int) -> None:
        """Feed each row's token at `position`, choose the next one, and advance the row's state."""
        here = self.position
        logits = self._logits(self.tokens[self.row_index, here], here, span)
        asking = self.state == ASKING
        answering = self.state == len(self.script.tail)
        temperature = torch.where(asking, 1.0, self.temperature)
        banned_below = torch.where(self.endless, ALL_BANNED, OPENERS_BANNED) * asking
        sampled = pick_tokens(logits, self.uniform, temperature, banned_below, MIN_P)
        forced = self.tail[self.state.clamp(min=0)]
        chosen = torch.where(asking | answering, sampled, forced)

        self.asked += asking
        ended = asking & (sampled == self.script.end_of_turn)
        cut = self.asked >= self.ask_limit
        cut |= self.question_stop & self.is_question[sampled]
        cut &= asking & ~ended & ~self.endless
        moved = torch.where(asking | answering, self.state, self.state + 1)
        moved = torch.where(ended, 1, torch.where(cut, 0, moved))

        full = here + 1 >= self.length
        after = (here + 1).clamp(max=self.length - 1)
        kept = self.tokens[self.row_index, after]
        self.tokens[self.row_index, after] = torch.where(full, kept, chosen)
        first = (moved == len(self.script.tail)) & ~answering
        self.answer_start.copy_(torch.where(first, here + 2, self.answer_start))
        self.state.copy_(moved)
        self.position.copy_(after)

    def _logits(self, token: Tensor, here: Tensor, span: int) -> Tensor:
        """One token a row through the target; writes its key and value. Logits [rows, vocab]."""
        shape = self.target.shape
        groups = shape.num_attention_heads // shape.num_key_value_heads
        cos, sin = (part[:, None] for part in rope_angles(here, shape))
        visible = (torch.arange(span, device=self.device)[None] <= here[:, None])[:, None, None]
        x = F.embedding(token, self.target.embedding)
        place = (self.row_index[:, None], self.kv_index[None], here[:, None])
        for layer, keys, values in zip(self.target.layers, self.keys, self.values, strict=True):
            q, k, v = project_qkv(x, layer, shape, cos, sin)
            keys.index_put_(place, k)
            values.index_put_(place, v)
            q = q.unflatten(1, (shape.num_key_value_heads, groups))
            scores = q @ keys[:, :, :span].transpose(-1, -2)
            weights = masked_softmax(scores, visible, shape.head_dim**-0.5)
            x = finish_layer(x, (weights @ values[:, :, :span]).flatten(1), layer, shape)
        return normed_head(x, self.target.final_norm, self.target.embedding, shape.rms_norm_eps)
