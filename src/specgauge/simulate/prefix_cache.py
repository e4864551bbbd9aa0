"""The prefix cache: whole blocks of prompt tokens, least recently used thrown out first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

Chain = tuple[int, ...]
"""Hash of each whole block of a prompt; each covers everything before it."""


class PrefixCache:
    """Blocks of prompts that were computed.

    Args:
        capacity_tokens: what fits; older blocks are dropped.
        block_size: tokens of a block.
        enabled: False: nothing is ever found.
        drops_last_block: a drafter that needs the target's hidden states (EAGLE, MTP) recomputes
            the last block found.
    """

    def __init__(
        self, capacity_tokens: int, block_size: int, enabled: bool, drops_last_block: bool
    ) -> None:
        self._capacity = max(capacity_tokens // block_size, 1)
        self._size = block_size
        self._enabled = enabled
        self._drops = drops_last_block
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def chain(self, token_ids: Sequence[int]) -> Chain:
        """The chained hashes of the prompt's whole blocks."""
        if not self._enabled:
            return ()
        hashes: list[int] = []
        before = 0
        for start in range(0, len(token_ids) - self._size + 1, self._size):
            before = hash((before, tuple(token_ids[start : start + self._size])))
            hashes.append(before)
        return tuple(hashes)

    def lookup(self, chain: Chain, tokens: int) -> int:
        """Tokens of the prompt that need not be computed: whole blocks, and never all of them."""
        most = (tokens - 1) // self._size
        found = 0
        for block in chain[:most]:
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            found += 1
        if self._drops and found:
            found -= 1
        return found * self._size

    def insert(self, chain: Chain) -> None:
        """The prompt is being computed: its blocks can be found from now on."""
        for block in chain:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)

    def reset(self) -> None:
        """Forget everything."""
        self._blocks.clear()
