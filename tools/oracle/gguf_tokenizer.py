"""Byte-level tokenizers as GGUF names them (tokenizer.ggml.pre), built as the models' own tokenizer.json
builds them, and written as GGUF files that hold nothing but a vocabulary.

transformers can read GGUF tokenizers too, but ignores `tokenizer.ggml.pre` (SmolLM2's digits come
out joined), so it is no oracle. Sources of what is spelled out here: the tokenizer.json of a model that
ggml's converter gives the name (Llama 3, Qwen 2 and 3.5, DeepSeek LLM, Coder and V3, GLM-4, Falcon,
StarCoder, SmolLM2), transformers' tokenization_cohere.py and tokenization_gpt_neox.py, tiktoken's
openai_public.py, mistral-common's tekken.json.
"""

import json
from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K_SPLIT = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
DEEPSEEK_LETTERS = (
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-"
    "\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
    "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b"
    "\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b"
    "\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8"
    "-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
)
DEEPSEEK_SYMBOLS = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"
DEEPSEEK_CJK = "[一-龥ࠀ-一가-\ud7ff]+"
DEEPSEEK3_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
DEEPSEEK3_SPLIT = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def split(*patterns: str) -> list:
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def digits() -> pre_tokenizers.Digits:
    return pre_tokenizers.Digits(individual_digits=True)


GPT2 = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
BYTES = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]

# name: components, normalizer, ignore_merges
NAMED = {
    "gpt-2": (GPT2, None, False),
    "phi-2": (GPT2, None, False),
    "mpt": (GPT2, normalizers.NFC, False),
    "olmo": (GPT2, normalizers.NFC, False),
    "smollm": ([digits(), *GPT2], None, False),
    "starcoder": ([digits(), *GPT2], None, False),
    "refact": ([digits(), *GPT2], None, False),
    "codeshell": ([digits(), *GPT2], None, False),
    "command-r": ([digits(), *GPT2], normalizers.NFC, False),
    "exaone": ([digits(), *GPT2], normalizers.NFKC, False),
    "llama-bpe": ([*split(LLAMA3_SPLIT), *BYTES], None, True),
    "chatglm-bpe": ([*split(LLAMA3_SPLIT), *BYTES], None, True),
    "dbrx": ([*split(LLAMA3_SPLIT), *BYTES], None, False),
    "qwen2": ([*split(QWEN2_SPLIT), *BYTES], normalizers.NFC, False),
    "qwen35": ([*split(QWEN35_SPLIT), *BYTES], normalizers.NFC, False),
    "gpt-4o": ([*split(O200K_SPLIT), *BYTES], None, True),
    "llama4": ([*split(O200K_SPLIT), *BYTES], None, True),
    "tekken": ([*split(TEKKEN_SPLIT), *BYTES], None, True),
    "deepseek-llm": (
        [*split("[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_SYMBOLS, r"\s+$", DEEPSEEK_CJK), digits(), *BYTES], None, False),
    "deepseek-coder": (
        [*split("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK), digits(), *BYTES], None, False),
    "deepseek-v3": ([*split(r"\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_SPLIT), *BYTES], None, False),
    "falcon": (
        [pre_tokenizers.Punctuation(behavior="contiguous"), *GPT2, pre_tokenizers.Digits(individual_digits=False),
         *split("[0-9][0-9][0-9]")], None, False),
    "default": (
        [*split(r"[\p{P}\$\+<=>\^~\|]+", GPT2_SPLIT, r"\p{N}+", "[0-9][0-9][0-9]"), *BYTES], None, False),
}
ALIASES = {"gpt2": "gpt-2", "llama3": "llama-bpe", "llama-v3": "llama-bpe", "glm4": "chatglm-bpe",
           "deepseek-r1-qwen": "qwen2", "megrez": "qwen2"}


def pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer that GGUF calls `name` in tokenizer.ggml.pre, as tokenizer.json spells it."""
    steps = NAMED[ALIASES.get(name, name)][0]
    return steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)


def ignores_merges(name: str) -> bool:
    return NAMED[ALIASES.get(name, name)][2]


def normalize_as(name: str, tokenizer: Tokenizer) -> None:
    form = NAMED[ALIASES.get(name, name)][1]
    if form is not None:
        tokenizer.normalizer = form()


def load(path: Path) -> Tokenizer:
    """The tokenizer in a GGUF file; only model "gpt2" (byte-level BPE)."""
    fields = gguf.GGUFReader(path).fields

    def get(key: str):
        return fields[f"tokenizer.ggml.{key}"].contents()

    if get("model") != "gpt2":
        raise ValueError(f"{path}: tokenizer model {get('model')!r}; give its tokenizer.json instead")
    merges = [tuple(merge.split(" ")) for merge in get("merges")]
    return build(get("pre"), get("tokens"), [gguf.TokenType(kind) for kind in get("token_type")], merges)


def build(pre: str, tokens: list[str], types: list[gguf.TokenType], merges: list[tuple[str, str]]) -> Tokenizer:
    """A tokenizer of that vocabulary as a model named `pre` has it."""
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignores_merges(pre)))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    normalize_as(pre, tokenizer)
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, types):
        if kind == gguf.TokenType.CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == gguf.TokenType.USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False)])
    return tokenizer


def vocabulary(path: Path) -> tuple[list[str], list[gguf.TokenType], list[tuple[str, str]]]:
    """Tokens, types and merges of a byte-level tokenizer.json, as a converter writes them into GGUF."""
    document = json.loads(path.read_text(encoding="utf-8"))
    spelled = {i: token for token, i in document["model"]["vocab"].items()}
    types = {}
    for added in document["added_tokens"]:
        spelled[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    tokens = [spelled.get(i, f"[hole {i}]") for i in range(max(spelled) + 1)]
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in document["model"]["merges"]]
    kinds = [types.get(i, gguf.TokenType.NORMAL if i in spelled else gguf.TokenType.UNUSED)
             for i in range(len(tokens))]
    return tokens, kinds, merges


def write_gguf(path: Path, pre: str, tokens: list[str], types: list[gguf.TokenType],
               merges: list[tuple[str, str]]) -> None:
    """A GGUF file without tensors: all that a tokenizer needs."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
