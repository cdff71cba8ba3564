"""Writes a tiny model as GGUF, laid out as llama.cpp's converter lays out the real ones."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer

import gguf_model
from tiny_models import TinyModel
from tiny_tokenizers import gguf_vocabulary

QuantType = gguf.GGMLQuantizationType


def write(
    path: Path,
    model: TinyModel,
    weights: dict[str, np.ndarray],
    tokenizer: Tokenizer,
    tokenizer_config: dict,
    encode: Callable[[str, np.ndarray], tuple[np.ndarray, QuantType]],
    tensors_per_split: int = 0,
) -> None:
    """`encode` turns a tensor (GGUF name, float32) into its stored array and type."""
    arch = "gemma3" if model.is_gemma else "llama"
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=tensors_per_split)
    writer.add_name(model.name)
    _add_shape(writer, model)
    _add_vocabulary(writer, model, tokenizer, tokenizer_config)
    for name, tensor in gguf_tensors(model, weights).items():
        data, quant_type = encode(name, tensor)
        writer.add_tensor(name, data, raw_dtype=quant_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_tensors(model: TinyModel, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights under GGUF's names and in GGUF's row order, and rope_freqs for llama3 scaling."""
    arch = "gemma3" if model.is_gemma else "llama"
    tensors = {}
    for name in gguf_model.gguf_names(arch, model.config["num_hidden_layers"]):
        tensor = weights.get(gguf_model.hf_name(arch, name))
        if tensor is None:  # a tied head
            continue
        if arch == "llama" and name.endswith("attn_q.weight"):
            tensor = permute(tensor, model.config["num_attention_heads"])
        if arch == "llama" and name.endswith("attn_k.weight"):
            tensor = permute(tensor, model.config["num_key_value_heads"])
        if arch == "gemma3" and name.endswith("norm.weight"):
            tensor = tensor + np.float32(1)
        tensors[name] = tensor
    if model.rope.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = llama3_divisors(model)
    return tensors


def permute(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """q or k rows from Hugging Face's halves to the interleaved pairs that `llama` GGUF files hold."""
    halves = rows.reshape(num_heads, 2, -1, rows.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def llama3_divisors(model: TinyModel) -> np.ndarray:
    """What each rotation frequency is divided by under `llama3` scaling, float32 [head_dim / 2]."""
    rope = model.rope
    exponents = np.arange(0, model.head_dim, 2, dtype=np.float32) / model.head_dim
    wavelengths = 2 * np.pi * rope["rope_theta"] ** exponents
    original, low, high = (
        rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"])
    smooth = np.clip((original / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)


def _add_shape(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    c = model.config
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(model.rope["rope_theta"])
    writer.add_vocab_size(c["vocab_size"])
    if c.get("head_dim"):
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
    if not model.is_gemma:
        writer.add_rope_dimension_count(model.head_dim)
    else:
        writer.add_sliding_window(c["sliding_window"])
    if model.rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(model.rope["factor"])


def _add_vocabulary(writer: gguf.GGUFWriter, model: TinyModel, tokenizer: Tokenizer, config: dict) -> None:
    vocabulary = gguf_vocabulary(tokenizer)
    tokens = vocabulary["tokens"]
    if model.pre == "gemma":
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_scores(vocabulary["scores"])
        writer.add_add_space_prefix(False)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2" if model.pre == "gpt2" else model.pre)
        writer.add_token_merges(vocabulary["merges"])
    writer.add_token_list(tokens)
    writer.add_token_types(vocabulary["types"])
    writer.add_bos_token_id(tokens.index(config["bos_token"]))
    writer.add_eos_token_id(tokens.index(config["eos_token"]))
    if "unk_token" in config:
        writer.add_unk_token_id(tokens.index(config["unk_token"]))
    writer.add_add_bos_token(vocabulary["adds_bos"])
    writer.add_chat_template(config["chat_template"])
