"""Tiny tokenizers for the tiny models, trained on a built-in paragraph.

`byte_level(...)` is what SmolLM2, GPT-2, Llama 3 and Qwen2 have: byte-level BPE behind a
pre-tokenizer. `sentencepiece_like(...)` is what Gemma's tokenizer.json holds: BPE over characters
with byte fallback, spaces written as U+2581. Both return a `tokenizers.Tokenizer` of exactly the
asked size.
"""

import json
import re

import gguf
from tokenizers import AddedToken, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from gguf_tokenizer import ignores_merges, normalize_as, pre_tokenizer

CORPUS = [
    "A quire is a gathering of pages. The pages are folded together, sewn through the fold, and "
    "bound with other quires into a book. When the reader turns a page, the page before it is not "
    "thrown away: it waits, and the next reader finds it where the last one left it.",
    "It's 1,024 tokens or 64 pages; they've said we'll need 3.14159 of them, don't you think?\n",
    "def turn(page, pages):\n    return pages[page + 1] if page + 1 < len(pages) else None\n",
    "Les pages sont pliées. Die Seiten werden gefaltet. Страницы сложены. ページ 页 🙂\n",
]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}"
)
LLAMA3_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + message['role'] + '\n' + "
    "message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)

SMOLLM2_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                   "<|eot_id|>"]
GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]


def for_model(pre: str, vocab_size: int) -> tuple[Tokenizer, dict]:
    """The tokenizer of a tiny model and its tokenizer_config.json."""
    if pre == "gemma":
        return sentencepiece_like(vocab_size, GEMMA_SPECIALS, "<bos>"), {
            "tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False,
            "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>",
            "clean_up_tokenization_spaces": False, "chat_template": GEMMA_TEMPLATE}
    if pre == "llama-bpe":
        return byte_level(pre, vocab_size, LLAMA3_SPECIALS, bos="<|begin_of_text|>"), {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot_id|>", "clean_up_tokenization_spaces": False,
            "chat_template": LLAMA3_TEMPLATE}
    return byte_level(pre, vocab_size, SMOLLM2_SPECIALS), {
        "tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>", "clean_up_tokenization_spaces": False,
        "chat_template": CHATML}


def byte_level(pre: str, vocab_size: int, specials: list[str], bos: str | None = None) -> Tokenizer:
    """Byte-level BPE; with `bos`, encoding with special tokens puts it in front."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignores_merges(pre)))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    normalize_as(pre, tokenizer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, _trainer(vocab_size, specials, pre_tokenizers.ByteLevel.alphabet()))
    if bos:
        _prepend(tokenizer, bos)
    return _checked(tokenizer, vocab_size)


def sentencepiece_like(vocab_size: int, specials: list[str], bos: str) -> Tokenizer:
    """Gemma's kind: ids are specials, 256 byte tokens, then characters and merges."""
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    first_learned = len(specials) + len(byte_tokens)

    learner = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    learner.normalizer = normalizers.Replace(" ", "▁")
    learner.train_from_iterator(CORPUS, _trainer(vocab_size - first_learned + 1, ["<unk>"], []))
    learned = json.loads(learner.to_str())["model"]["vocab"]
    pieces = [token for token in sorted(learned, key=learned.get) if token != "<unk>"]

    vocab = {token: i for i, token in enumerate(specials + byte_tokens + pieces)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=_all_merges(pieces), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    _prepend(tokenizer, bos)
    return _checked(tokenizer, vocab_size)


def gguf_vocabulary(tokenizer: Tokenizer) -> dict:
    """The lists a GGUF file holds: tokens, types, merges or scores; and whether BOS is added."""
    document = json.loads(tokenizer.to_str())
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=vocab.get)
    special = {token["content"] for token in document["added_tokens"]}
    return {
        "tokens": tokens,
        "types": [_token_type(token, special) for token in tokens],
        "scores": [-1000.0 if token in special else -float(i) for i, token in enumerate(tokens)],
        "merges": [" ".join(pair) for pair in document["model"]["merges"]],
        "adds_bos": document["post_processor"] is not None,
    }


def _token_type(token: str, special: set[str]) -> gguf.TokenType:
    if token in special:
        return gguf.TokenType.CONTROL
    return gguf.TokenType.BYTE if re.fullmatch("<0x[0-9A-F]{2}>", token) else gguf.TokenType.NORMAL


def _all_merges(pieces: list[str]) -> list[tuple[str, str]]:
    """Every pair of pieces that makes a piece, best piece first: SentencePiece merges by the score of
    the result, so tokenizer.json (which merges by pair) must list all pairs to say the same."""
    known = set(pieces)
    return [
        (piece[:cut], piece[cut:])
        for piece in pieces
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]


def _trainer(vocab_size: int, specials: list[str], alphabet: list[str]) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=specials,
        initial_alphabet=alphabet,
        min_frequency=1,
        show_progress=False,
    )


def _prepend(tokenizer: Tokenizer, bos: str) -> None:
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )


def _checked(tokenizer: Tokenizer, vocab_size: int) -> Tokenizer:
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {vocab_size}")
    return tokenizer
