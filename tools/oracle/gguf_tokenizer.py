"""The tokenizer of a GGUF file with byte-level BPE, built as the model's own tokenizer.json builds it.

transformers can read GGUF tokenizers too, but ignores `tokenizer.ggml.pre` (SmolLM2's digits come
out joined), so it is no oracle. Here the pre-tokenizer follows that key.
"""

from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that GGUF calls `name` in tokenizer.ggml.pre, as tokenizer.json spells it."""
    if name in ("gpt2", "gpt-2"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    split = {"llama-bpe": LLAMA3_SPLIT, "qwen2": QWEN2_SPLIT}[name]
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def load(path: Path) -> Tokenizer:
    """The tokenizer in a GGUF file; only model "gpt2" (byte-level BPE)."""
    fields = gguf.GGUFReader(path).fields

    def get(key: str):
        return fields[f"tokenizer.ggml.{key}"].contents()

    if get("model") != "gpt2":
        raise ValueError(f"{path}: tokenizer model {get('model')!r}; give its tokenizer.json instead")
    tokens, types, pre = get("tokens"), get("token_type"), get("pre")
    merges = [tuple(merge.split(" ")) for merge in get("merges")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)}, merges=merges, ignore_merges=pre == "llama-bpe"
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, types):
        if kind == gguf.TokenType.CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == gguf.TokenType.USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
    return tokenizer
