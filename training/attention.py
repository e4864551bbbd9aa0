"""Attention under an arbitrary mask: FlexAttention on a GPU, a dense reference everywhere.

Both back ends take a mask *rule* (`mask_mod` in FlexAttention's words): a function of index tensors
``(row, head, query, key)`` that says whether the query may see the key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

MaskRule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Mask:
    """A mask ready for use: exactly one of the two fields is set.

    dense: bool ``[rows, 1, queries, keys]``, True where attention is allowed.
    blocks: FlexAttention's ``BlockMask`` of the same shape.
    """

    dense: Tensor | None = None
    blocks: Any = None


@cache
def _compiled_flex() -> tuple[Callable[..., Tensor], Callable[..., Any]]:
    """FlexAttention is only fused, and only fast, when compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    return (
        torch.compile(flex_attention, dynamic=False),
        torch.compile(create_block_mask, dynamic=False),
    )


def build_mask(
    rule: MaskRule, rows: int, queries: int, keys: int, device: torch.device, flex: bool
) -> Mask:
    """Evaluate `rule` for every (row, query, key), as blocks if `flex`, else densely."""
    if flex:
        _, create = _compiled_flex()
        return Mask(blocks=create(rule, rows, None, queries, keys, device=device))
    row = torch.arange(rows, device=device)[:, None, None]
    query = torch.arange(queries, device=device)[None, :, None]
    key = torch.arange(keys, device=device)[None, None, :]
    return Mask(dense=rule(row, torch.zeros_like(row), query, key)[:, None])


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """Grouped-query attention with scale ``1/sqrt(head_dim)``.

    q: ``[rows, heads, queries, head_dim]``; k, v: ``[rows, kv_heads, keys, head_dim]``.
    Returns ``[rows, heads, queries, head_dim]`` in q's dtype.
    """
    if mask.blocks is not None:
        flex, _ = _compiled_flex()
        return flex(q, k, v, block_mask=mask.blocks, enable_gqa=True)
    group = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q,
        k.repeat_interleave(group, dim=1),
        v.repeat_interleave(group, dim=1),
        attn_mask=mask.dense,
    )
