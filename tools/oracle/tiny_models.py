"""What each tiny random model is: its config.json, its tokenizer and its weights.

Weights are large on purpose: attention is peaked and the logits are far from uniform, so that a
wrong mask, base, scale, permutation or epsilon moves the logits by far more than float rounding
does. Everything follows from the model's name and one seed.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class TinyModel:
    """One tiny model. `config` is config.json as written; sizes are read from it."""

    name: str
    config: dict
    pre: str  # GGUF's name of the pre-tokenizer, or "gemma"
    dtype: str = "F32"  # of the stored weights
    num_shards: int = 1
    embedding_std: float = 0.4
    generation_config: dict = field(default_factory=dict)

    @property
    def is_gemma(self) -> bool:
        return self.config["model_type"] == "gemma3_text"

    @property
    def head_dim(self) -> int:
        return self.config.get("head_dim") or self.config["hidden_size"] // self.config["num_attention_heads"]

    @property
    def rope(self) -> dict:
        """The rotation of global layers, in the newer spelling."""
        new = self.config.get("rope_parameters")
        if new:
            return new.get("full_attention", new)
        scaling = self.config.get("rope_scaling") or {"rope_type": "default"}
        return {**scaling, "rope_theta": self.config["rope_theta"]}


def llama_config(*, hidden, layers, heads, kv_heads, ffn, vocab, tied, **rest) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **rest,
    }


def gemma3_config(*, hidden, layers, heads, kv_heads, head_dim, ffn, vocab, scalar, **rest) -> dict:
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "query_pre_attn_scalar": scalar,
        "sliding_window": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "pad_token_id": 0,
        "eos_token_id": [1, 5],
        "bos_token_id": 2,
        **rest,
    }


def five_to_one(layers: int) -> list[str]:
    return ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)]


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # So short that all three branches (kept, blended, divided) occur among a few frequencies.
    "original_max_position_embeddings": 64,
}

HF_MODELS = [
    TinyModel(
        "llama_tied",
        llama_config(hidden=64, layers=2, heads=4, kv_heads=2, ffn=112, vocab=323, tied=True,
                     rope_theta=10000.0, rope_scaling=None, torch_dtype="float32"),
        pre="smollm",
        generation_config={"bos_token_id": 1, "eos_token_id": [2, 0], "do_sample": True,
                           "temperature": 0.6, "top_k": 20, "top_p": 0.9},
    ),
    TinyModel(
        # One kv head; embeddings so small that rms_norm_eps moves the first layer by several percent.
        "llama_untied",
        llama_config(hidden=80, layers=2, heads=5, kv_heads=1, ffn=120, vocab=331, tied=False, head_dim=16,
                     rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, dtype="float32"),
        pre="gpt2",
        num_shards=3,
        embedding_std=0.01,
    ),
    TinyModel(
        # head_dim differs from hidden / heads.
        "llama3_rope",
        llama_config(hidden=72, layers=2, heads=4, kv_heads=2, ffn=96, vocab=384, tied=True, head_dim=32,
                     rope_parameters={**LLAMA3_SCALING, "rope_theta": 10000.0}, dtype="float32",
                     bos_token_id=0, eos_token_id=[1, 4]),
        pre="llama-bpe",
    ),
    TinyModel(
        "llama3_rope_legacy",
        llama_config(hidden=64, layers=2, heads=4, kv_heads=2, ffn=80, vocab=352, tied=False,
                     rope_theta=500000.0, rope_scaling=LLAMA3_SCALING, torch_dtype="float32",
                     bos_token_id=0, eos_token_id=[1, 4]),
        pre="llama-bpe",
    ),
    TinyModel(
        "llama_mha_bf16",
        llama_config(hidden=64, layers=3, heads=4, kv_heads=4, ffn=88, vocab=333, tied=False,
                     rope_theta=100000.0, torch_dtype="bfloat16", rms_norm_eps=1e-6),
        pre="qwen2",
        dtype="BF16",
    ),
    TinyModel(
        "llama_f16",
        llama_config(hidden=96, layers=2, heads=6, kv_heads=3, ffn=104, vocab=345, tied=False,
                     rope_theta=10000.0, torch_dtype="float16"),
        pre="smollm",
        dtype="F16",
    ),
    TinyModel(
        "gemma3",
        gemma3_config(hidden=64, layers=7, heads=2, kv_heads=1, head_dim=24, ffn=48, vocab=421, scalar=16,
                      layer_types=five_to_one(7), dtype="float32",
                      rope_parameters={
                          "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                      }),
        pre="gemma",
    ),
    TinyModel(
        # Two global layers, and linear scaling, which only global layers feel.
        "gemma3_legacy",
        gemma3_config(hidden=64, layers=12, heads=4, kv_heads=2, head_dim=16, ffn=56, vocab=400, scalar=24,
                      sliding_window_pattern=6, rope_theta=1000000.0, rope_local_base_freq=10000.0,
                      rope_scaling={"rope_type": "linear", "factor": 8.0}, torch_dtype="bfloat16",
                      rms_norm_eps=1e-4),
        pre="gemma",
        dtype="BF16",
    ),
]

GGUF_MODELS = [
    TinyModel(
        "llama_gguf",
        llama_config(hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, vocab=322, tied=False,
                     rope_theta=10000.0),
        pre="smollm",
    ),
    TinyModel(
        "llama3_gguf",
        llama_config(hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, vocab=340, tied=True, head_dim=32,
                     rope_theta=10000.0, rope_scaling=LLAMA3_SCALING, bos_token_id=0, eos_token_id=4),
        pre="llama-bpe",
    ),
    TinyModel(
        # Rows long enough for K-quants, whose blocks hold 256 weights.
        "llama_k_gguf",
        llama_config(hidden=256, layers=2, heads=4, kv_heads=1, ffn=256, vocab=324, tied=True,
                     rope_theta=100000.0),
        pre="qwen2",
        embedding_std=0.2,
    ),
    TinyModel(
        "gemma3_gguf",
        gemma3_config(hidden=64, layers=7, heads=2, kv_heads=1, head_dim=32, ffn=32, vocab=406, scalar=32,
                      layer_types=five_to_one(7),
                      rope_parameters={
                          "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                      }),
        pre="gemma",
    ),
]


def random_weights(model: TinyModel) -> dict[str, np.ndarray]:
    """All weights in float32 under Hugging Face's names; `lm_head.weight` only if untied."""
    c = model.config
    hidden, ffn = c["hidden_size"], c["intermediate_size"]
    q_rows = c["num_attention_heads"] * model.head_dim
    kv_rows = c["num_key_value_heads"] * model.head_dim
    rng = _rng(model.name)

    def linear(rows: int, cols: int, gain: float) -> np.ndarray:
        return rng.normal(0, gain / np.sqrt(cols), (rows, cols)).astype(np.float32)

    def norm(size: int, centre: float = 1.0) -> np.ndarray:
        stored = centre - 1.0 if model.is_gemma else centre  # gemma's norms multiply by 1 + w
        return (stored + rng.normal(0, 0.3, size)).astype(np.float32)

    weights = {"model.embed_tokens.weight": rng.normal(
        0, model.embedding_std, (c["vocab_size"], hidden)).astype(np.float32)}
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        weights |= {
            layer + "self_attn.q_proj.weight": linear(q_rows, hidden, 1.4),
            layer + "self_attn.k_proj.weight": linear(kv_rows, hidden, 1.4),
            layer + "self_attn.v_proj.weight": linear(kv_rows, hidden, 1.2),
            layer + "self_attn.o_proj.weight": linear(hidden, q_rows, 1.2),
            layer + "mlp.gate_proj.weight": linear(ffn, hidden, 1.2),
            layer + "mlp.up_proj.weight": linear(ffn, hidden, 1.2),
            layer + "mlp.down_proj.weight": linear(hidden, ffn, 1.2),
            layer + "input_layernorm.weight": norm(hidden),
            layer + "post_attention_layernorm.weight": norm(hidden),
        }
        if model.is_gemma:
            weights |= {
                layer + "pre_feedforward_layernorm.weight": norm(hidden),
                layer + "post_feedforward_layernorm.weight": norm(hidden),
                layer + "self_attn.q_norm.weight": norm(model.head_dim, centre=1.6),
                layer + "self_attn.k_norm.weight": norm(model.head_dim, centre=1.6),
            }
    weights["model.norm.weight"] = norm(hidden)
    if not c.get("tie_word_embeddings", model.is_gemma):
        weights["lm_head.weight"] = linear(c["vocab_size"], hidden, 3.0)
    return weights


def golden_tokens(model: TinyModel, count: int = 150) -> list[int]:
    """Random ids over the whole vocabulary, BOS first: long enough to leave a window of 32 far behind."""
    rng = _rng(model.name + "/tokens")
    ids = rng.integers(0, model.config["vocab_size"], count).tolist()
    ids[0] = model.config["bos_token_id"]
    return ids


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
