"""The EAGLE3 head and its training-time test.

Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
Training-Time Test", arXiv 2503.01840. Layer order, residuals and positions follow vLLM's
`llama_eagle3.py` and its proposer, since that is where the head has to work:

- step 0 at index t sees the target's tapped states of token t, and token t+1; it predicts t+2;
- step j > 0 sees the head's own state (before the output norm) from step j-1, and token t+1+j,
  at position t+j; it predicts t+2+j;
- its keys are those of step 0 up to t, and those of its own chain, one per later step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from training.attention import Mask, attend, build_mask
from training.fuse import fuse
from training.target import LlamaShape, Target, forward_packed, rope_angles, rotate


@dataclass(frozen=True)
class HeadShape:
    """What may vary between heads of one target."""

    taps: tuple[int, int, int]
    """Layers whose input is tapped, vLLM's `eagle_aux_hidden_state_layer_ids`."""
    draft_vocab_size: int
    intermediate_size: int
    norm_taps: bool = True
    """An RMSNorm for each tapped state before they are mixed, vLLM's `fc_norm`."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


class RmsNorm(nn.Module):
    """RMSNorm with a learned scale, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Norm over the last dimension; bfloat16 out under autocast, else x's dtype."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)


class Head(nn.Module):
    """The drafter's parameters; names as in vLLM's checkpoint, but for `midlayer.` (export.py)."""

    def __init__(self, target: LlamaShape, shape: HeadShape) -> None:
        super().__init__()
        hidden, eps = target.hidden_size, target.rms_norm_eps
        queries = target.num_attention_heads * target.head_dim
        keys = target.num_key_value_heads * target.head_dim
        self.target_shape, self.shape = target, shape

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        if shape.norm_taps:
            self.fc_norm = nn.ModuleList(RmsNorm(hidden, eps) for _ in shape.taps)
        self.fc = linear(len(shape.taps) * hidden, hidden)
        self.input_layernorm = RmsNorm(hidden, eps)
        self.hidden_norm = RmsNorm(hidden, eps)
        self.q_proj = linear(2 * hidden, queries)
        self.k_proj = linear(2 * hidden, keys)
        self.v_proj = linear(2 * hidden, keys)
        self.o_proj = linear(queries, hidden)
        self.post_attention_layernorm = RmsNorm(hidden, eps)
        self.gate_proj = linear(hidden, shape.intermediate_size)
        self.up_proj = linear(hidden, shape.intermediate_size)
        self.down_proj = linear(shape.intermediate_size, hidden)
        self.norm = RmsNorm(hidden, eps)
        self.lm_head = linear(hidden, shape.draft_vocab_size)

    def mix_taps(self, taps: list[Tensor]) -> Tensor:
        """Three tapped states ``[..., hidden]`` to one, vLLM's `combine_hidden_states`."""
        if self.shape.norm_taps:
            taps = [norm(tap) for norm, tap in zip(self.fc_norm, taps, strict=True)]
        return self.fc(torch.cat(taps, dim=-1))


def initialise(head: Head, target: Target, draft_ids: Tensor, seed: int) -> None:
    """Seeded start: small weights, output rows copied from the target, residual branches at 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if parameter.dim() == 2:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * parameter.shape[1] ** -0.5)
            if name.startswith(("o_proj", "down_proj")):
                parameter.zero_()
        head.lm_head.weight.copy_(target.embedding[draft_ids.to(target.embedding.device)])
        head.norm.weight.copy_(target.final_norm)


@fuse
def _project(
    embedded: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor, head: Head
) -> tuple[Tensor, Tensor, Tensor]:
    """Norm, join and project to q, k, v ``[rows, heads, n, head_dim]``, rotated."""
    joined = torch.cat([head.input_layernorm(embedded), head.hidden_norm(hidden)], dim=-1)
    size = head.target_shape.head_dim
    q, k, v = (
        projection(joined).unflatten(-1, (-1, size))
        for projection in (head.q_proj, head.k_proj, head.v_proj)
    )
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


@fuse
def _finish(hidden: Tensor, attended: Tensor, head: Head) -> Tensor:
    """Residuals and MLP; returns the state before the output norm, which feeds the next step."""
    hidden = hidden + head.o_proj(attended.transpose(1, 2).flatten(-2))
    normed = head.post_attention_layernorm(hidden)
    return hidden + head.down_proj(F.silu(head.gate_proj(normed)) * head.up_proj(normed))


@fuse
def _compare(hidden: Tensor, teacher: Tensor, head: Head, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Cross entropy with the target's distribution over the draft vocabulary, and the best id.

    hidden, teacher: ``[rows, n, hidden]``, the head's state and the target's final normed state;
    rows: the target's output rows of the draft vocabulary. Both results ``[rows, n]``.
    """
    logits = head.lm_head(head.norm(hidden)).float()
    wanted = F.linear(teacher, rows).float().softmax(-1)
    return -(wanted * logits.log_softmax(-1)).sum(-1), logits.argmax(-1)


@dataclass(frozen=True)
class Batch:
    """Packed rows on the device, and the indices t at which drafting is trained or judged.

    tokens, document, position: ``[rows, length]`` (see `dataset.Packed`); start: t, int64
    ``[rows, n]``, ascending; used: bool ``[rows, n]``, False for padding.
    """

    tokens: Tensor
    document: Tensor
    position: Tensor
    start: Tensor
    used: Tensor


@dataclass(frozen=True)
class Step:
    """Outcome of one step for every start, all ``[rows, n]``.

    loss: cross entropy; valid: the predicted token lies in the same document;
    in_vocabulary: it is a draft token; correct: the head's best id is that token.
    """

    loss: Tensor
    valid: Tensor
    in_vocabulary: Tensor
    correct: Tensor


def chain_mask(batch: Batch, step: int, steps: int, flex: bool) -> Mask:
    """Mask of one step: keys are ``[step 0: length][step 1: n] … [step steps-1: n]``."""
    rows, length = batch.tokens.shape
    starts = batch.start.shape[1]
    # The clamp keeps the index in range: FlexAttention evaluates both branches everywhere.
    start, document = batch.start, batch.document
    # A tensor, not a number: a number would be compiled in, once for every step.
    limit = torch.tensor(step * starts, device=batch.tokens.device)

    def rule(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        at = start[row, query]
        column = key.clamp(max=length - 1)
        context = (key < length) & (key <= at) & (document[row, column] == document[row, at])
        later = key - length
        chain = (later >= 0) & (later % starts == query) & (later < limit)
        return context | chain

    keys = length + (steps - 1) * starts
    return build_mask(rule, rows, starts, keys, batch.tokens.device, flex)


def document_mask(batch: Batch, flex: bool) -> Mask:
    """Causal within each document, for the target's own pass."""
    document = batch.document
    rows, length = batch.tokens.shape

    def rule(row: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (document[row, key] == document[row, query])

    return build_mask(rule, rows, length, length, batch.tokens.device, flex)


def run_chain(
    head: Head,
    target: Target,
    target_rows: Tensor,
    draft_index: Tensor,
    batch: Batch,
    steps: int,
    flex: bool,
) -> list[Step]:
    """Training-time test: `steps` drafting steps from every start at once.

    target_rows: output rows of the draft vocabulary ``[draft, hidden]``; draft_index: target id to
    draft id, -1 outside, int64 ``[vocab]``.
    """
    with torch.no_grad():
        taps, final = forward_packed(
            target, batch.tokens, batch.position, document_mask(batch, flex), head.shape.taps
        )
    length, starts = batch.tokens.shape[1], batch.start.shape[1]

    def gather(values: Tensor, index: Tensor) -> Tensor:
        return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))

    def embed(tokens: Tensor) -> Tensor:
        return F.embedding(tokens, target.embedding)

    mixed = head.mix_taps(taps)
    cos, sin = (part[:, :, None] for part in rope_angles(batch.position, target.shape))
    q, k, v = _project(embed(batch.tokens.roll(-1, dims=1)), mixed, cos, sin, head)
    at = batch.start[:, None, :, None].expand(-1, q.shape[1], -1, q.shape[-1])
    q = q.gather(2, at)
    hidden = gather(mixed, batch.start)
    start_position = batch.position.gather(1, batch.start)
    start_document = batch.document.gather(1, batch.start)

    keys, values, results = [k], [v], []
    for step in range(steps):
        if step > 0:
            token = batch.tokens.gather(1, (batch.start + 1 + step).clamp(max=length - 1))
            angles = rope_angles(start_position + step, target.shape)
            cos, sin = (part[:, :, None] for part in angles)
            q, k, v = _project(embed(token), hidden, cos, sin, head)
            keys.append(k)
            values.append(v)
        # The same key length in every step: one compiled attention kernel serves them all.
        missing = (steps - 1 - step) * starts
        padded = [F.pad(torch.cat(part, dim=2), (0, 0, 0, missing)) for part in (keys, values)]
        attended = attend(q, *padded, chain_mask(batch, step, steps, flex))
        hidden = _finish(hidden, attended, head)

        teacher_at = batch.start + 1 + step
        predicted_at = teacher_at + 1
        inside = predicted_at < length
        predicted_at = predicted_at.clamp(max=length - 1)
        valid = inside & (batch.document.gather(1, predicted_at) == start_document) & batch.used
        wanted = draft_index[batch.tokens.gather(1, predicted_at)]
        teacher = gather(final, teacher_at.clamp(max=length - 1))
        loss, best = _compare(hidden, teacher, head, target_rows)
        results.append(Step(loss, valid, wanted >= 0, (best == wanted) & valid))
    return results
