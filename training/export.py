"""Write a head in the layout that vLLM loads as `LlamaForCausalLMEagle3`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from training.drafter import Head

OUTSIDE_LAYER = ("fc.", "fc_norm.", "norm.", "lm_head.")
IN_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
IN_MLP = ("gate_proj", "up_proj", "down_proj")


def checkpoint_name(parameter: str) -> str:
    """The name of a `Head` parameter in the checkpoint."""
    if parameter.startswith(OUTSIDE_LAYER):
        return parameter
    module = parameter.split(".", maxsplit=1)[0]
    if module in IN_ATTENTION:
        return f"midlayer.self_attn.{parameter}"
    if module in IN_MLP:
        return f"midlayer.mlp.{parameter}"
    return f"midlayer.{parameter}"


def export_head(head: Head, draft_ids: Tensor, folder: Path) -> None:
    """Write `model.safetensors` (bfloat16) and `config.json`.

    d2t: int64 ``[draft]``, target id minus draft id; t2d: bool ``[vocab]``, id is in the draft
    vocabulary. The embedding is not written: vLLM shares the target's.
    """
    target, shape = head.target_shape, head.shape
    draft_ids = draft_ids.cpu()
    tensors = {
        checkpoint_name(name): parameter.detach().to("cpu", torch.bfloat16).contiguous()
        for name, parameter in head.named_parameters()
    }
    tensors["d2t"] = draft_ids - torch.arange(len(draft_ids))
    tensors["t2d"] = torch.zeros(target.vocab_size, dtype=torch.bool)
    tensors["t2d"][draft_ids] = True
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": target.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": target.num_attention_heads,
        "num_key_value_heads": target.num_key_value_heads,
        "head_dim": target.head_dim,
        "hidden_act": "silu",
        "vocab_size": target.vocab_size,
        "draft_vocab_size": shape.draft_vocab_size,
        "max_position_embeddings": target.max_position_embeddings,
        "rms_norm_eps": target.rms_norm_eps,
        "rope_theta": target.rope_theta,
        "rope_parameters": {"rope_theta": target.rope_theta, "rope_type": "default"},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "fc_norm": shape.norm_taps,
        # Named twice: vLLM 0.26's newer model runner reads only the first, speculators' tools and
        # older code only the second.
        "eagle_aux_hidden_state_layer_ids": list(shape.taps),
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(shape.taps)},
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
