"""The converter's pieces on tiny arrays, against what llama.cpp's layout means."""

import numpy as np
import pytest

from specgauge.embedded import gguf_to_hf as convert

HEADS, HEAD_DIM, HIDDEN = 3, 8, 5


def permute_like_llama_cpp(weight, heads):
    """llama.cpp's own converter: the halves of each head, interleaved."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def rotate(vector, position, pairs):
    """Rotary embedding of one head: each pair of elements turned by its own angle."""
    turned = vector.copy()
    for index, (a, b) in enumerate(pairs):
        angle = position * 10000.0 ** (-index / len(pairs))
        c, s = np.cos(angle), np.sin(angle)
        turned[a], turned[b] = vector[a] * c - vector[b] * s, vector[b] * c + vector[a] * s
    return turned


def test_permutation_is_undone():
    rows = np.arange(HEADS * HEAD_DIM * HIDDEN, dtype=np.float32).reshape(-1, HIDDEN)
    stored = permute_like_llama_cpp(rows, HEADS)
    assert not np.array_equal(stored, rows)
    assert np.array_equal(convert.undo_rotary_permutation(stored, HEADS), rows)


def test_attention_scores_are_the_same_in_both_layouts():
    """Neighbours rotated in the GGUF's layout = halves rotated in Hugging Face's."""
    rng = np.random.default_rng(1)
    stored_q, stored_k = rng.normal(size=(2, HEAD_DIM, HIDDEN))
    x, y = rng.normal(size=(2, HIDDEN))
    neighbours = [(2 * i, 2 * i + 1) for i in range(HEAD_DIM // 2)]
    halves = [(i, i + HEAD_DIM // 2) for i in range(HEAD_DIM // 2)]
    in_gguf = rotate(stored_q @ x, 7, neighbours) @ rotate(stored_k @ y, 3, neighbours)
    q = convert.undo_rotary_permutation(stored_q, 1)
    k = convert.undo_rotary_permutation(stored_k, 1)
    in_hf = rotate(q @ x, 7, halves) @ rotate(k @ y, 3, halves)
    assert in_hf == pytest.approx(in_gguf)


def test_queries_and_keys_alone_are_reordered_each_with_its_own_heads():
    metadata = {"llama.attention.head_count": 4, "llama.attention.head_count_kv": 2}
    weight = np.arange(64, dtype=np.float32).reshape(16, 4)
    q = convert.in_hf_order("blk.0.attn_q.weight", weight, metadata)
    k = convert.in_hf_order("blk.0.attn_k.weight", weight, metadata)
    assert np.array_equal(permute_like_llama_cpp(q, 4), weight)
    assert np.array_equal(permute_like_llama_cpp(k, 2), weight)
    for other in ("blk.0.attn_v.weight", "blk.0.ffn_up.weight", "token_embd.weight"):
        assert convert.in_hf_order(other, weight, metadata) is weight


@pytest.mark.parametrize(
    ("gguf", "hf"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.29.attn_q.weight", "model.layers.29.self_attn.q_proj.weight"),
        ("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight"),
        ("blk.7.ffn_norm.weight", "model.layers.7.post_attention_layernorm.weight"),
    ],
)
def test_names(gguf, hf):
    assert convert.hf_name(gguf) == hf


@pytest.mark.parametrize("name", ["blk.0.attn_q.bias", "blk.0.ssm_a.weight", "rope_freqs.weight"])
def test_a_tensor_of_another_architecture_is_refused_by_name(name):
    with pytest.raises(ValueError, match=name):
        convert.hf_name(name)


TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<end>", "a", "b", "ab"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
}


def test_tokenizer_keeps_order_merges_and_special_tokens():
    made = convert.tokenizer(TOKENIZER)
    assert made["model"]["vocab"] == {"<end>": 0, "a": 1, "b": 2, "ab": 3}
    assert made["model"]["merges"] == [["a", "b"]]
    assert [(t["id"], t["content"], t["special"]) for t in made["added_tokens"]] == [
        (0, "<end>", True)
    ]
    digits, byte_level = made["pre_tokenizer"]["pretokenizers"]
    assert digits == {"type": "Digits", "individual_digits": True}
    assert byte_level["type"] == "ByteLevel"


@pytest.mark.parametrize("key", ["tokenizer.ggml.model", "tokenizer.ggml.pre"])
def test_another_tokenizer_is_refused(key):
    with pytest.raises(ValueError, match="qwen9"):
        convert.tokenizer({**TOKENIZER, key: "qwen9"})


def test_config_speaks_of_the_models_own_numbers():
    metadata = {
        "llama.attention.head_count": 9,
        "llama.attention.head_count_kv": 3,
        "llama.attention.layer_norm_rms_epsilon": float(np.float32(1e-5)),
        "llama.block_count": 30,
        "llama.context_length": 8192,
        "llama.embedding_length": 576,
        "llama.feed_forward_length": 1536,
        "llama.rope.freq_base": 100000.0,
        "llama.vocab_size": 49152,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.padding_token_id": 2,
    }
    config = convert.model_config(metadata, tied=True)
    assert config["head_dim"] == 64
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True
    assert config["rope_parameters"]["rope_theta"] == 100000.0
