"""Makes the tiny random models under tests/data/tiny/<name>/, with golden logits.

    $(tools/oracle/setup.sh) tools/oracle/make_tiny_models.py [name ...]

Each folder is a Hugging Face model (config.json, model.safetensors or shards with an index,
tokenizer.json, tokenizer_config.json) and a golden (golden.json, golden.npy; see golden_logits.py).
golden.json also holds `texts`, strings with their ids (special tokens added), and `chat`, one
conversation as the folder's template renders it, with its ids.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

import golden_logits
import tiny_tokenizers
from tiny_models import HF_MODELS, TinyModel, golden_tokens, random_weights

TINY = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiny"
TORCH_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
TEXTS = ["", "A page.", " two  spaces and 1234 pages\n\n\tIt's they'LL", "Seiten 页 🙂 é", "x<|im_end|><end_of_turn>y"]
CHAT = [{"role": "user", "content": "Turn the page. "}]


def main() -> None:
    for model in HF_MODELS:
        if len(sys.argv) == 1 or model.name in sys.argv[1:]:
            make(model, TINY / model.name)


def make(model: TinyModel, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, tokenizer_config = tiny_tokenizers.for_model(model.pre, model.config["vocab_size"])

    write_json(folder / "config.json", model.config)
    if model.generation_config:
        write_json(folder / "generation_config.json", model.generation_config)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    write_weights(model, folder)

    tokens = golden_tokens(model)
    logits = golden_logits.all_logits(golden_logits.load_folder(folder), tokens)
    golden_logits.write_golden(
        folder / "golden.json",
        tokens,
        logits,
        texts=[{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS],
        chat=golden_chat(tokenizer, tokenizer_config),
    )
    print(f"{model.name}: logits std {logits.std():.2f}, {folder_bytes(folder) / 1000:.0f} KB")


def write_weights(model: TinyModel, folder: Path) -> None:
    tensors = {
        name: torch.from_numpy(weight).to(TORCH_DTYPES[model.dtype])
        for name, weight in random_weights(model).items()
    }
    if model.num_shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for shard, names in enumerate(np.array_split(list(tensors), model.num_shards), start=1):
        file = f"model-{shard:05}-of-{model.num_shards:05}.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
        weight_map |= {str(name): file for name in names}
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map})


def golden_chat(tokenizer: Tokenizer, config: dict) -> dict:
    special = {key: value for key, value in config.items() if key.endswith("_token") and isinstance(value, str)}
    rendered, _ = render_jinja_template(
        [CHAT], chat_template=config["chat_template"], add_generation_prompt=True, **special
    )
    ids = tokenizer.encode(rendered[0], add_special_tokens=False).ids
    return {"messages": CHAT, "prompt": rendered[0], "ids": ids}


def write_json(path: Path, document: dict) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
