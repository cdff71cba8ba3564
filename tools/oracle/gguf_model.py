"""A GGUF file (`llama` or `gemma3`) as a Hugging Face model in fp32.

Every tensor is dequantized by the gguf package, whose formulas are llama.cpp's; so the result is
what the file says, computed without any rounding of weights or activations below float32.
"""

import re
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

COMMON_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LAYER_NAMES = {
    "llama": COMMON_NAMES | {"ffn_norm": "post_attention_layernorm"},
    "gemma3": COMMON_NAMES | {
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}
TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
GEMMA3_GLOBAL_EVERY = 6
GEMMA3_LOCAL_BASE = 10000.0


class GgufFile:
    """Metadata and dequantized tensors of one GGUF file."""

    def __init__(self, path: Path):
        self._reader = gguf.GGUFReader(path)
        self.arch = self.get("general.architecture")

    def get(self, key: str, default=None):
        """The value of a metadata key, `{arch}` replaced by the architecture."""
        field = self._reader.fields.get(key.format(arch=getattr(self, "arch", "")))
        return default if field is None else field.contents()

    def tensors(self) -> dict[str, np.ndarray]:
        """float32 arrays under GGUF's names, rows first."""
        return {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float32) for t in self._reader.tensors}


def load(path: Path) -> torch.nn.Module:
    """The model in fp32 with eager attention; fails if a tensor is missing or left over."""
    file = GgufFile(path)
    tensors = file.tensors()
    rope_divisors = tensors.pop("rope_freqs.weight", None)
    tied = "output.weight" not in tensors
    config, model_class = {"llama": _llama, "gemma3": _gemma3}[file.arch](file, tied, len(tensors["token_embd.weight"]))
    config._attn_implementation = "eager"

    model = model_class(config)
    state = {hf_name(file.arch, name): torch.from_numpy(_as_hf(file, name, t)) for name, t in tensors.items()}
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    if rope_divisors is not None:
        model.model.rotary_emb.inv_freq /= torch.from_numpy(rope_divisors)
    return model.eval()


def hf_name(arch: str, gguf_name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`."""
    if gguf_name in TOP_NAMES:
        return TOP_NAMES[gguf_name]
    layer, part = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", gguf_name).groups()
    return f"model.layers.{layer}.{LAYER_NAMES[arch][part]}.weight"


def gguf_names(arch: str, num_layers: int) -> list[str]:
    """Every tensor name the architecture may have."""
    return list(TOP_NAMES) + [f"blk.{i}.{part}.weight" for i in range(num_layers) for part in LAYER_NAMES[arch]]


def unpermute(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """q or k rows from `llama` GGUF order (x0 y0 x1 y1 …) to Hugging Face's halves (x0 x1 … y0 y1 …)."""
    paired = rows.reshape(num_heads, -1, 2, rows.shape[-1])
    return np.ascontiguousarray(paired.swapaxes(1, 2).reshape(rows.shape))


def _as_hf(file: GgufFile, name: str, tensor: np.ndarray) -> np.ndarray:
    if file.arch == "llama" and name.endswith("attn_q.weight"):
        return unpermute(tensor, file.get("{arch}.attention.head_count"))
    if file.arch == "llama" and name.endswith("attn_k.weight"):
        return unpermute(tensor, file.get("{arch}.attention.head_count_kv"))
    if file.arch == "gemma3" and name.endswith("norm.weight"):
        return tensor - 1.0  # GGUF stores 1 + w
    return tensor


def _shape(file: GgufFile, tied: bool, vocab_size: int) -> dict:
    hidden, heads = file.get("{arch}.embedding_length"), file.get("{arch}.attention.head_count")
    return {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "intermediate_size": file.get("{arch}.feed_forward_length"),
        "num_hidden_layers": file.get("{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.get("{arch}.attention.head_count_kv", heads),
        "head_dim": file.get("{arch}.attention.key_length", hidden // heads),
        "max_position_embeddings": file.get("{arch}.context_length"),
        "rms_norm_eps": file.get("{arch}.attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": tied,
    }


def _rope(file: GgufFile) -> dict:
    rope = {"rope_type": "default", "rope_theta": file.get("{arch}.rope.freq_base", 10000.0)}
    if file.get("{arch}.rope.scaling.type", "none") == "linear":
        rope |= {"rope_type": "linear", "factor": file.get("{arch}.rope.scaling.factor")}
    return rope


def _llama(file: GgufFile, tied: bool, vocab_size: int):
    return LlamaConfig(**_shape(file, tied, vocab_size), rope_parameters=_rope(file)), LlamaForCausalLM


def _gemma3(file: GgufFile, tied: bool, vocab_size: int):
    shape = _shape(file, tied, vocab_size)
    layer_types = [
        "full_attention" if i % GEMMA3_GLOBAL_EVERY == GEMMA3_GLOBAL_EVERY - 1 else "sliding_attention"
        for i in range(shape["num_hidden_layers"])
    ]
    config = Gemma3TextConfig(
        **shape,
        layer_types=layer_types,
        sliding_window=file.get("{arch}.attention.sliding_window"),
        query_pre_attn_scalar=shape["head_dim"],  # GGUF has no key for it
        rope_parameters={
            "full_attention": _rope(file),
            "sliding_attention": {"rope_type": "default", "rope_theta": GEMMA3_LOCAL_BASE},
        },
    )
    return config, Gemma3ForCausalLM
