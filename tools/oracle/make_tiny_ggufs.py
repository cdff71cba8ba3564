"""Makes the tiny GGUF files under tests/data/tiny/<name>/, with golden logits.

    $(tools/oracle/setup.sh) tools/oracle/make_tiny_ggufs.py

<name>/<variant>.gguf has its golden in <name>/<variant>.json and <name>/<variant>.npy
(golden_logits.py). The golden is transformers in fp32 on the file's own weights, dequantized.
`split` is a set of files; its golden names the first.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import torch

import golden_logits
import gguf_export
import gguf_model
import quant_blocks
import tiny_tokenizers
from tiny_models import GGUF_MODELS, TinyModel, golden_tokens, random_weights

TINY = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiny"
QuantType = gguf.GGMLQuantizationType
TypeOf = Callable[[str], QuantType]


def all_of(quant_type: QuantType) -> TypeOf:
    return lambda name: quant_type


def q4_k_m(name: str) -> QuantType:
    """All three K-quants, placed as llama.cpp's Q4_K_M places them, and Q5_K where it would not."""
    if any(part in name for part in ("token_embd", "attn_v", "ffn_down")):
        return QuantType.Q6_K
    return QuantType.Q5_K if any(part in name for part in ("attn_output", "ffn_up")) else QuantType.Q4_K


def low_bits(name: str) -> QuantType:
    """The types of fewest bits, as they stand side by side in Q2_K and Q3_K files."""
    if "token_embd" in name:
        return QuantType.IQ4_NL
    return QuantType.Q3_K if any(part in name for part in ("attn_v", "ffn_down", "attn_output")) else QuantType.Q2_K


def small_q4_k_m(name: str) -> QuantType:
    """What Q4_K_M becomes when rows are no multiple of 256: Q5_0 and Q8_0."""
    return QuantType.Q8_0 if any(part in name for part in ("token_embd", "attn_v")) else QuantType.Q5_0


VARIANTS: dict[str, dict[str, TypeOf]] = {
    "llama_gguf": {
        name.lower(): all_of(QuantType[name])
        for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL")
    },
    "llama3_gguf": {"f16": all_of(QuantType.F16)},
    "llama_k_gguf": {"q4_k_m": q4_k_m, "low_bits": low_bits},
    "gemma3_gguf": {"f32": all_of(QuantType.F32), "q5_0_q8_0": small_q4_k_m, "q4_1": all_of(QuantType.Q4_1)},
}


def main() -> None:
    for model in GGUF_MODELS:
        for variant, type_of in VARIANTS[model.name].items():
            make(model, TINY / model.name / f"{variant}.gguf", type_of)
    llama = GGUF_MODELS[0]
    make(llama, TINY / llama.name / "split.gguf", all_of(QuantType.Q4_0), tensors_per_split=8)


def make(model: TinyModel, path: Path, type_of: TypeOf, tensors_per_split: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer, tokenizer_config = tiny_tokenizers.for_model(model.pre, model.config["vocab_size"])

    def encode(name: str, tensor: np.ndarray) -> tuple[np.ndarray, QuantType]:
        quant_type = type_of(name) if tensor.ndim == 2 else QuantType.F32
        return quant_blocks.encode(tensor, quant_type), quant_type

    gguf_export.write(
        path, model, random_weights(model), tokenizer, tokenizer_config, encode, tensors_per_split
    )
    # A split set has the whole file's weights: its golden is computed from an unsplit twin.
    readable = path.with_name("q4_0.gguf") if tensors_per_split else path
    tokens = golden_tokens(model)
    logits = golden_logits.all_logits(gguf_model.load(readable), tokens)
    first = next(path.parent.glob(f"{path.stem}-00001-of-*.gguf")) if tensors_per_split else path
    golden_logits.write_golden(path.with_suffix(".json"), tokens, logits, file=first.name)
    print(f"{model.name}/{path.stem}: logits std {logits.std():.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
