"""Overlap check, packing, draft vocabulary, replay and export names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file

from training.acceptance import Acceptance, replay
from training.dataset import Sequence, choose_draft_vocabulary, pack
from training.drafter import Head, HeadShape
from training.export import export_head
from training.overlap import Forbidden
from training.prompts import cut_passage, last_turn
from training.tests.tiny import SHAPE

if TYPE_CHECKING:
    from pathlib import Path

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def test_overlap_finds_grams_short_prompts_and_whole_turns() -> None:
    forbidden = Forbidden.from_texts([LONG, "Who wrote the first book?", "Say hi"])
    assert not forbidden.hits("one two three four five six seven eight nine ten eleven 12", "")
    assert forbidden.hits("x", f"well, {LONG.upper()}!")
    assert forbidden.hits("Tell me: who wrote the first book", "")
    assert forbidden.hits("say HI!", "")
    assert not forbidden.hits("say hi again", "")


def test_packing_keeps_every_token_once() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(4, 20, (50,), generator=generator).tolist()
    sequences = [Sequence(torch.full((n,), i + 1), n // 2, "k", True) for i, n in enumerate(sizes)]
    packed = pack(sequences, 32, seed=0)
    for index, size in enumerate(sizes):
        place = packed.document == index
        assert int(place.sum()) == size
        assert packed.tokens[place].tolist() == [index + 1] * size
        assert packed.position[place].tolist() == list(range(size))
        assert int(packed.answer[place].sum()) == size - size // 2
    assert int((packed.document < 0).sum()) == packed.tokens.numel() - sum(sizes)


def test_draft_vocabulary_is_sorted_and_most_frequent() -> None:
    ids = choose_draft_vocabulary(torch.tensor([5, 0, 9, 7, 1]), 3)
    assert ids.tolist() == [0, 2, 3]


def test_replay_takes_the_steps_a_server_takes() -> None:
    # Token 0 comes from prefill; its draft yields 2 + 1, so the next draft is made after token 3.
    found = replay([2, 9, 9, 0, 3, 9], tokens=6, positions=3)
    assert found.drafts == 3
    assert found.accepted == [2, 2, 1]
    assert found.length == 1 + 5 / 3
    assert (found + Acceptance()).drafts == 3


def test_export_has_vllms_names_and_maps(tmp_path: Path) -> None:
    head = Head(SHAPE, HeadShape((1, 2, 3), 16, 24))
    ids = torch.arange(5, 37, 2)
    export_head(head, ids, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {"fc.weight", "fc_norm.0.weight", "norm.weight", "lm_head.weight"} <= set(tensors)
    assert tensors["midlayer.self_attn.q_proj.weight"].shape == (32, 64)
    assert tensors["midlayer.mlp.down_proj.weight"].dtype == torch.bfloat16
    assert torch.equal(torch.arange(16) + tensors["d2t"], ids)
    assert tensors["t2d"].nonzero()[:, 0].tolist() == ids.tolist()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["eagle_config"] == {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}


def test_passages_end_at_a_sentence() -> None:
    text = "First one here. Second one there. Third"
    assert cut_passage(text, 36) == "First one here. Second one there."
    assert cut_passage("no sentence end in here", 12) == "no sentence"
    assert last_turn("<|im_start|>user\nHi\nthere") == "Hi\nthere"
