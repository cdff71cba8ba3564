#!/usr/bin/env python3
"""Writes docs/models.md: which architecture is checked against what, in which formats and types.

    tools/make_models_doc.py           writes it
    tools/make_models_doc.py --check   fails if it is not what would be written

Everything in its table is read from tests/data/tiny, where each model that is found takes part in
the oracle's and in law 1's tests. Python 3 and nothing else.
"""

import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TINY = ROOT / "tests" / "data" / "tiny"
DOCUMENT = ROOT / "docs" / "models.md"

# What people know each family by. A model of a family that is not listed here fails the script.
FAMILIES = {
    "llama": "Llama 2 and 3, SmolLM2, CodeLlama, TinyLlama, DeepSeek-R1-Distill-Llama",
    "mistral": "Mistral 7B, Mistral Nemo, Mistral Small",
    "mixtral": "Mixtral 8x7B, 8x22B",
    "smollm3": "SmolLM3",
    "qwen2": "Qwen2, Qwen2.5, QwQ, DeepSeek-R1-Distill-Qwen",
    "qwen2moe": "Qwen1.5-MoE, Qwen2-57B-A14B",
    "qwen3": "Qwen3",
    "qwen3moe": "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder",
    "gemma2": "Gemma 2",
    "gemma3": "Gemma 3 (text)",
    "phi3": "Phi-3, Phi-3.5, Phi-4, Phi-4-mini",
    "granite": "Granite 3",
    "olmo2": "OLMo 2",
    "gpt2": "GPT-2",
    "starcoder": "StarCoder, SantaCoder",
    "starcoder2": "StarCoder2",
    "falcon": "Falcon 7B, 40B, 180B",
}
HF_FAMILIES = {"gemma3_text": "gemma3", "gpt_bigcode": "starcoder", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}

HEAD = """# Models

Written by `tools/make_models_doc.py` from the models of `tests/data/tiny`; a test fails when it is out of date.

Each line's models are random and tiny, with large weights, and their logits in f32 (`--act f32`) are within 3e-4 of the logits' rms of what Hugging Face transformers computes, on prompts longer than their windows. GGUF files named `q8_0` below a `_gguf` folder are what llama.cpp's own converter makes of the folder; the other GGUF files are written as it lays them out. Law 1's tests (threads, chunks, batches, caches, forks, instruction sets: the same bits) run on every one of them.

"""

TAIL = """
Weight types of GGUF files, each computed bit by bit as the format defines it (`tests/kernels`): {types}. Folders hold F32, F16 or BF16.

What is not here is refused by name, with the list of what is known; so is a number in a file that Quire does not run (ALiBi, dynamic RoPE scaling, another activation), and a tensor that has no place in its architecture.

Beyond the trained length: `--rope-scaling yarn:F` or `linear:F` stretches the rotation of the layers that see the whole context, and the context with it. It is refused for models with learned positions and for those whose files scale their rotation already. LongRoPE models (Phi-3-mini-128k) have two sets of factors: a window asked for with `--ctx` that is no longer than the original length takes the short set, any other the long one, whatever the prompt's length.
"""


@dataclass
class Family:
    """What the tests hold of one family."""

    architecture: str  # GGUF's name
    model_types: set = field(default_factory=set)
    folders: list = field(default_factory=list)
    ggufs: list = field(default_factory=list)
    folder_types: set = field(default_factory=set)
    gguf_types: set = field(default_factory=set)


def main() -> None:
    text = document()
    if "--check" not in sys.argv[1:]:
        DOCUMENT.write_text(text, encoding="utf-8")
    elif not DOCUMENT.exists() or DOCUMENT.read_text(encoding="utf-8") != text:
        sys.exit("docs/models.md is not what the tests' models say: run tools/make_models_doc.py")


def document() -> str:
    families = read_families()
    missing = sorted(set(FAMILIES) - set(families))
    if missing:
        sys.exit(f"tests/data/tiny has no model of {', '.join(missing)}")
    rows = [
        "| models | `model_type` | GGUF | checked folders | their types | checked GGUF files | their types |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, known_as in FAMILIES.items():
        family = families[name]
        cells = [known_as, code(family.model_types), code([family.architecture]), code(family.folders),
                 plain(family.folder_types), code(family.ggufs), plain(family.gguf_types)]
        rows.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(rows) + "\n" + TAIL.format(types=", ".join(weight_types()))


def code(names) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "–"


def plain(names) -> str:
    return ", ".join(sorted(names)) or "–"


def weight_types() -> list[str]:
    """The types that have goldens of their blocks."""
    return sorted(file.stem.upper() for file in (ROOT / "tests" / "data" / "dequant").glob("*.blocks"))


def read_families() -> dict[str, Family]:
    families: dict[str, Family] = {}
    for folder in sorted(TINY.iterdir()):
        if (folder / "config.json").exists():
            add_folder(families, folder)
        for file in sorted(folder.glob("*.gguf")):
            add_gguf(families, file)
    return families


def add_folder(families: dict[str, Family], folder: Path) -> None:
    model_type = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    name = HF_FAMILIES.get(model_type, model_type)
    family = family_of(families, name, "llama" if name in ("mistral", "mixtral") else name)
    family.model_types.add(model_type)
    family.folders.append(folder.name)
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as stream:
            header = json.loads(stream.read(struct.unpack("<Q", stream.read(8))[0]))
        family.folder_types |= {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"}


def add_gguf(families: dict[str, Family], file: Path) -> None:
    architecture, types, has_experts = read_gguf(file)
    name = "mixtral" if architecture == "llama" and has_experts else architecture
    if file.parent.name.startswith("mistral"):  # its GGUF files call themselves llama
        name = "mistral"
    family = family_of(families, name, architecture)
    shown = file.name.split("-0000")[0].removesuffix(".gguf")
    if f"{file.parent.name}/{shown}" not in family.ggufs:
        family.ggufs.append(f"{file.parent.name}/{shown}")
    family.gguf_types |= types


def family_of(families: dict[str, Family], name: str, architecture: str) -> Family:
    if name not in FAMILIES:
        sys.exit(f"tests/data/tiny has a model of '{name}', which tools/make_models_doc.py does not name")
    return families.setdefault(name, Family(architecture))


GGML_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K",
              12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 30: "BF16"}
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class GgufReader:
    """Just enough of GGUF to list keys and tensor types. // GGUF specification, version 3"""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 8  # magic, version

    def take(self, format_: str):
        value = struct.unpack_from("<" + format_, self._data, self._at)[0]
        self._at += struct.calcsize("<" + format_)
        return value

    def string(self) -> str:
        length = self.take("Q")
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8", "replace")

    def value(self, kind: int):
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        element = self.take("I")
        return [self.value(element) for _ in range(self.take("Q"))]


def read_gguf(file: Path) -> tuple[str, set[str], bool]:
    """Architecture, tensor types, whether it has experts. A later part of a split set has no
    architecture of its own: its first part is asked."""
    reader = GgufReader(file.read_bytes())
    num_tensors, num_keys = reader.take("Q"), reader.take("Q")
    keys = {}
    for _ in range(num_keys):
        key = reader.string()
        keys[key] = reader.value(reader.take("I"))
    types = set()
    for _ in range(num_tensors):
        reader.string()
        for _ in range(reader.take("I")):
            reader.take("Q")
        types.add(GGML_TYPES[reader.take("I")])
        reader.take("Q")
    if "general.architecture" not in keys:
        first = next(file.parent.glob(file.name.split("-0000")[0] + "-00001-of-*.gguf"))
        return read_gguf(first)[0], types, False
    architecture = keys["general.architecture"]
    return architecture, types, keys.get(f"{architecture}.expert_count", 0) > 0


if __name__ == "__main__":
    main()
