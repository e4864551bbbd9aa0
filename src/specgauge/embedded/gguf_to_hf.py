"""Script: a Llama GGUF into a Hugging Face folder that vLLM serves.  Runs in vLLM's environment.

    python -I gguf_to_hf.py MODEL.gguf FOLDER

Needs ``gguf``, ``numpy``, ``torch`` and ``safetensors``; imports nothing of specgauge.  The same
GGUF and the same versions give the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Metadata = dict[str, Any]
Weights = npt.NDArray[np.float32]

BLOCK_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
CONTROL_TOKEN = 3
"""``tokenizer.ggml.token_type`` of a special token."""


def undo_rotary_permutation(weight: Weights, heads: int) -> Weights:
    """Put the rows of a query or key projection (heads * head_dim, hidden) back in order.

    llama.cpp rotates neighbours (0,1), (2,3), …, Hugging Face halves (0, d/2), (1, d/2+1), …; its
    converter therefore interleaves the two halves of each head.  This is the inverse.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def hf_name(name: str) -> str:
    """Hugging Face's name of a tensor: ``blk.3.attn_q.weight`` → ``model.layers.3.self_attn…``.

    Raises:
        ValueError: not a tensor of a Llama model.
    """
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in BLOCK_NAMES and parts[3] == "weight":
        return f"model.layers.{int(parts[1])}.{BLOCK_NAMES[parts[2]]}.weight"
    raise ValueError(f"tensor {name!r} belongs to no Llama model")


def in_hf_order(name: str, weight: Weights, metadata: Metadata) -> Weights:
    """``weight`` as Hugging Face stores it: only queries and keys differ."""
    if name.endswith(".attn_q.weight"):
        return undo_rotary_permutation(weight, metadata["llama.attention.head_count"])
    if name.endswith(".attn_k.weight"):
        return undo_rotary_permutation(weight, metadata["llama.attention.head_count_kv"])
    return weight


def model_config(metadata: Metadata, tied: bool) -> dict[str, Any]:
    """``config.json``.  ``tied``: the output layer is the embedding (no ``output.weight``)."""
    heads = metadata["llama.attention.head_count"]
    hidden = metadata["llama.embedding_length"]
    # The GGUF holds a float32; its shortest decimal is what the model's authors wrote (1e-05).
    epsilon = float(str(np.float32(metadata["llama.attention.layer_norm_rms_epsilon"])))
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "dtype": "bfloat16",
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "max_position_embeddings": metadata["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": metadata["llama.block_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": epsilon,
        "rope_parameters": {
            "rope_theta": metadata["llama.rope.freq_base"],
            "rope_type": "default",
        },
        "tie_word_embeddings": tied,
        "vocab_size": metadata["llama.vocab_size"],
    }


def tokenizer(metadata: Metadata) -> dict[str, Any]:
    """``tokenizer.json`` of a byte-level BPE tokenizer.

    The pre-tokenizer called ``smollm`` splits digits one by one before the byte-level split.

    Raises:
        ValueError: another kind of tokenizer.
    """
    kind = (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"])
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"tokenizer {kind[0]!r} with pre-tokenizer {kind[1]!r} is not supported")
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    tokens = metadata["tokenizer.ggml.tokens"]
    special = [i for i, t in enumerate(metadata["tokenizer.ggml.token_type"]) if t == CONTROL_TOKEN]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": tokens[index],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(metadata: Metadata) -> dict[str, Any]:
    """``tokenizer_config.json``."""
    tokens = metadata["tokenizer.ggml.tokens"]
    return {
        "add_prefix_space": False,
        "bos_token": tokens[metadata["tokenizer.ggml.bos_token_id"]],
        "clean_up_tokenization_spaces": False,
        "eos_token": tokens[metadata["tokenizer.ggml.eos_token_id"]],
        "model_max_length": metadata["llama.context_length"],
        "pad_token": tokens[metadata["tokenizer.ggml.padding_token_id"]],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": tokens[metadata["tokenizer.ggml.unknown_token_id"]],
    }


def generation_config(metadata: Metadata) -> dict[str, Any]:
    """``generation_config.json``: no sampling defaults, so that a run's own settings decide."""
    return {
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def convert(source: Path, folder: Path) -> None:
    """Write the Hugging Face folder of the Llama GGUF ``source`` into the empty ``folder``."""
    import torch
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.torch import save_file

    reader = GGUFReader(source)
    metadata: Metadata = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        ordered = np.ascontiguousarray(in_hf_order(tensor.name, weight, metadata))
        tensors[hf_name(tensor.name)] = torch.from_numpy(ordered).to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    texts = {
        "config.json": model_config(metadata, tied="lm_head.weight" not in tensors),
        "generation_config.json": generation_config(metadata),
        "tokenizer.json": tokenizer(metadata),
        "tokenizer_config.json": tokenizer_config(metadata),
    }
    for name, value in texts.items():
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "chat_template.jinja").write_text(
        metadata["tokenizer.chat_template"], encoding="utf-8"
    )


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
