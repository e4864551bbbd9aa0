"""Teacher-forced judgement of a head on known answers, without a server."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import torch

from training.acceptance import Acceptance, replay
from training.drafter import Batch, Head, run_chain

if TYPE_CHECKING:
    from torch import Tensor

    from training.dataset import Packed
    from training.target import Target

DRAFT_TOKENS = 3


def judge(
    head: Head,
    target: Target,
    draft_ids: Tensor,
    packed: Packed,
    rows: int,
    starts: int,
    steps: int,
    flex: bool,
    most_tokens: int = 10**6,
) -> dict[str, Acceptance]:
    """Replayed acceptance at K=3 of all greedy answers in `packed`, by kind and under "all".

    most_tokens: answers are replayed up to this length. rows, starts, steps: batch shape, best
    kept at the training's, so that nothing is compiled again.
    """
    device = target.embedding.device
    draft_index = torch.full((target.shape.vocab_size,), -1, device=device)
    draft_index[draft_ids] = torch.arange(len(draft_ids), device=device)
    target_rows = target.embedding[draft_ids]
    length = packed.tokens.shape[1]
    accepted = torch.zeros(packed.tokens.shape, dtype=torch.int64)
    for first in range(0, len(packed), rows):
        index = torch.arange(first, first + rows).clamp(max=len(packed) - 1)
        tokens, document, position, answer = (
            part[index].to(device)
            for part in (packed.tokens, packed.document, packed.position, packed.answer)
        )
        wanted = answer.roll(-1, dims=1)  # t drafts after answer token t+1
        wanted[:, -1] = False
        for chunk in range(-(-int(wanted.sum(1).max()) // starts)):
            rank = wanted.cumsum(1) - 1
            inside = wanted & (rank >= chunk * starts) & (rank < (chunk + 1) * starts)
            start = inside.float().topk(starts, dim=1).indices.sort(1).values
            used = inside.gather(1, start)
            batch = Batch(tokens, document, position, start, used)
            # Gradients stay enabled (and unused): the compiled training graphs serve here too.
            with torch.autocast(device.type, torch.bfloat16, enabled=flex):
                outcome = run_chain(head, target, target_rows, draft_index, batch, steps, flex)
            alive = used
            for step in outcome[:DRAFT_TOKENS]:
                alive = alive & step.correct
                here = torch.zeros((rows, length), dtype=torch.int64, device=device)
                here.scatter_add_(1, start, alive.long())
                accepted[index] += here.cpu()
    return _by_kind(packed, accepted, most_tokens)


def _by_kind(packed: Packed, accepted: Tensor, most_tokens: int) -> dict[str, Acceptance]:
    """Replay every greedy answer; the last tokens only serve to judge the drafts before them."""
    totals: dict[str, Acceptance] = defaultdict(Acceptance)
    for row in range(len(packed)):
        for document in packed.document[row].unique().tolist():
            if document < 0 or not packed.sequences[document].greedy:
                continue
            place = ((packed.document[row] == document) & packed.answer[row]).nonzero()[:, 0]
            counts = accepted[row, place - 1].tolist()
            tokens = min(len(counts) - DRAFT_TOKENS, most_tokens)
            found = replay(counts, tokens, DRAFT_TOKENS)
            totals[packed.sequences[document].kind] += found
            totals["all"] += found
    return dict(sorted(totals.items()))
