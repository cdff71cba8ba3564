"""Makes a tiny model of every architecture under tests/data/tiny, as a folder and as GGUF.

    $(tools/oracle/setup.sh) tools/oracle/make_architecture_models.py [name ...]

tests/data/tiny/<name>/ is a Hugging Face folder with its golden (golden_logits.py), whose names and
layout of tensors are transformers' own. <name>_gguf/q8_0.gguf is that folder as llama.cpp's
converter writes it (llama_cpp_converter.py): a converter of ours would repeat our loader's mistakes.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import llama_cpp_converter  # first: it decides which gguf is imported

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import golden_logits
import tiny_tokenizers
from architecture_models import MODELS, ArchitectureModel
from make_tiny_models import TEXTS, golden_chat, write_json

TINY = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiny"
TORCH_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16}
BLOCK = 32  # of Q8_0


def main() -> None:
    for model in MODELS:
        if len(sys.argv) == 1 or model.name in sys.argv[1:]:
            make(model)


def make(model: ArchitectureModel) -> None:
    folder = TINY / model.name
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(folder, model, model.config)
    if model.config["model_type"] == "gpt2":
        as_on_the_hub(folder / "model.safetensors")
    hf_model = golden_logits.load_folder(folder)
    write_golden(folder / "golden.json", model, hf_model, model.tokens, **golden_texts(model))
    if model.short_window:
        write_golden(folder / "short.json", model, hf_model, model.short_window - 4, window=model.short_window)
    if model.gguf_config is not None:
        make_gguf(model, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{model.name}: {size / 1000:.0f} KB", flush=True)


def write_folder(folder: Path, model: ArchitectureModel, config: dict) -> None:
    """The folder as transformers would save it, but with config.json word for word."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config)
    hf_model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    randomise(hf_model, model.name, model.config["model_type"])
    hf_model.to(TORCH_DTYPES[model.dtype]).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_json(folder / "config.json", config)
    tokenizer, tokenizer_config = tiny_tokenizers.for_model(model.pre, config["vocab_size"])
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    write_json(folder / "tokenizer_config.json", tokenizer_config)


@torch.no_grad()
def randomise(hf_model: torch.nn.Module, seed: str, model_type: str) -> None:
    """Weights so large that attention is peaked and the logits are far from uniform."""
    for name, parameter in sorted(hf_model.named_parameters()):
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "little"))
        if parameter.ndim == 1:
            values = vector(rng, name, parameter.shape[0], model_type)
        else:
            input_axis = 0 if model_type == "gpt2" and ("c_" in name) else -1
            values = matrix(rng, name, tuple(parameter.shape), input_axis)
        parameter.copy_(torch.from_numpy(values))


def vector(rng: np.random.Generator, name: str, size: int, model_type: str) -> np.ndarray:
    centre = 0.0
    if name.endswith("weight") and model_type != "gemma2":  # gemma's norms multiply by 1 + w
        centre = 1.6 if "q_norm" in name or "k_norm" in name else 1.0
    return np.round((centre + rng.normal(0, 0.3, size)) * 256) / 256


def matrix(rng: np.random.Generator, name: str, shape: tuple[int, ...], input_axis: int) -> np.ndarray:
    """Integers of at most 127 times a power of two; every block of 32 inputs has one of 127."""
    if any(part in name for part in ("embed", "wte", "wpe")):
        deviation = 0.3
    else:
        deviation = gain(name) / np.sqrt(shape[input_axis])
    scale = 2.0 ** np.round(np.log2(deviation / 40))
    codes = np.moveaxis(np.clip(np.round(rng.normal(0, deviation / scale, shape)), -126, 126), input_axis, -1)
    if codes.shape[-1] % BLOCK == 0:
        blocks = codes.reshape(-1, BLOCK)
        places = rng.integers(0, BLOCK, len(blocks))
        blocks[np.arange(len(blocks)), places] = rng.choice([-127.0, 127.0], len(blocks))
        codes = blocks.reshape(codes.shape)
    return np.ascontiguousarray(np.moveaxis(codes * scale, -1, input_axis))


def gain(name: str) -> float:
    if "lm_head" in name:
        return 3.0
    if any(part in name for part in ("q_proj", "k_proj", "qkv", "query_key_value", "c_attn")):
        return 1.4
    return 2.0 if "mlp.gate.weight" in name or "block_sparse_moe.gate.weight" in name else 1.2


def as_on_the_hub(path: Path) -> None:
    """GPT-2's own files lack the prefix and carry masks, at which this converter stumbles."""
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(path).items()}
    for layer in {name.split(".")[1] for name in tensors if name.startswith("h.")}:
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 1, 1, dtype=torch.float16)
    save_file(tensors, path, metadata={"format": "pt"})


def golden_tokens(model: ArchitectureModel, count: int) -> list[int]:
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(model.name.encode()).digest()[:8], "little"))
    ids = rng.integers(0, model.config["vocab_size"], count).tolist()
    ids[0] = model.config["bos_token_id"]
    return ids


def golden_texts(model: ArchitectureModel) -> dict:
    tokenizer, config = tiny_tokenizers.for_model(model.pre, model.config["vocab_size"])
    return {
        "texts": [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS],
        "chat": golden_chat(tokenizer, config),
    }


def write_golden(path: Path, model: ArchitectureModel, hf_model: torch.nn.Module, count: int, **extra) -> None:
    tokens = golden_tokens(model, count)
    logits = golden_logits.all_logits(hf_model, tokens)
    golden_logits.write_golden(path, tokens, logits, **extra)
    print(f"  {path.parent.name}/{path.name}: logits rms {np.sqrt((logits**2).mean()):.2f}")


def make_gguf(model: ArchitectureModel, folder: Path) -> None:
    """Its golden is the folder's, unless GGUF leaves something out."""
    target = folder.with_name(folder.name + "_gguf")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    file = target / "q8_0.gguf"
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / model.name
        write_folder(source, model, model.config | model.gguf_config)
        llama_cpp_converter.convert(source, file, model.pre)
        if model.gguf_config:
            write_golden(target / "q8_0.json", model, golden_logits.load_folder(source), model.tokens, file=file.name)
            return
    golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    write_compact(target / "q8_0.json", {
        "tokens": golden["tokens"], "positions": golden["positions"],
        "logits": f"../{folder.name}/golden.npy", "file": file.name})


def write_compact(path: Path, document: dict) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
