"""Makes tests/data/tokenizers/: Hugging Face's ids for ugly strings.

    $(tools/oracle/setup.sh) tools/oracle/make_tokenizer_goldens.py SHARED/tokenizers SmolLM2.gguf

strings.json         ["...", ...]: the strings of ugly_strings.py, in order
<tokenizer>.json     {"ids": [[...], ...], "decoded": {"3": "...", ...}}: for each string the ids,
                     special tokens in the text parsed, none added; and what decoding gives (special
                     tokens kept) wherever that is not the string itself
vocabulary.json      {"tokens", "types", "merges"}: a small byte-level vocabulary learned from the
                     strings without regard to words, so that every cut between words shows in the ids
named.json           {"falcon": [[...], ...], "phi-2": "gpt-2", ...}: with that vocabulary, the ids of
                     each string under each pre-tokenizer that GGUF names; or whose ids they are too

SHARED/tokenizers/<name>/tokenizer.json are the real gemma3, llama3, qwen3 and mistral_v1; smollm2 is
the one in the GGUF file. gpt2 has no file here: its pre-tokenizer is tested with SmolLM2's own
vocabulary, as <name> smollm2_gpt2 (digits not split).
"""

import json
import sys
from pathlib import Path

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import gguf_tokenizer
import ugly_strings

GOLDENS = Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"
FILES = ["gemma3", "llama3", "qwen3", "mistral_v1"]


def main() -> None:
    shared, smollm2_gguf = Path(sys.argv[1]), Path(sys.argv[2])
    GOLDENS.mkdir(parents=True, exist_ok=True)
    write(GOLDENS / "strings.json", ugly_strings.ALL)
    for name in FILES:
        make(name, Tokenizer.from_file(str(shared / name / "tokenizer.json")))

    smollm2 = gguf_tokenizer.load(smollm2_gguf)
    make("smollm2", smollm2)
    smollm2.pre_tokenizer = gguf_tokenizer.pre_tokenizer("gpt2")
    make("smollm2_gpt2", smollm2)
    make_named()


def make_named() -> None:
    tokens, types, merges = small_vocabulary()
    kinds = [int(kind) for kind in types]
    write(GOLDENS / "vocabulary.json", {"tokens": tokens, "types": kinds, "merges": [" ".join(m) for m in merges]})
    lines = []
    names_by_ids = {}
    for name in gguf_tokenizer.NAMED:
        tokenizer = gguf_tokenizer.build(name, tokens, types, merges)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in ugly_strings.ALL]
        text = json.dumps(ids, separators=(",", ":"))
        same = names_by_ids.setdefault(text, name)
        lines.append(f"{json.dumps(name)}:{text if same == name else json.dumps(same)}")
    (GOLDENS / "named.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")
    print(f"named: {len(lines)} pre-tokenizers, {len(ugly_strings.ALL)} strings each")


def small_vocabulary() -> tuple[list[str], list[gguf.TokenType], list[tuple[str, str]]]:
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=2000, min_frequency=1, max_token_length=16, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    added = {"<|im_start|>": gguf.TokenType.CONTROL, "<|im_end|>": gguf.TokenType.CONTROL,
             "<think>": gguf.TokenType.USER_DEFINED}
    texts = [text for text in ugly_strings.ALL if text not in ugly_strings.CONTROL_LOOKING]
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [gguf.TokenType.NORMAL] * len(tokens) + list(added.values())
    return tokens + list(added), types, [tuple(merge) for merge in model["merges"]]


def make(name: str, tokenizer: Tokenizer) -> None:
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in ugly_strings.ALL]
    decoded = {
        i: tokenizer.decode(row, skip_special_tokens=False) for i, row in enumerate(ids)
    }
    changed = {i: text for i, text in decoded.items() if text != ugly_strings.ALL[i]}
    write(GOLDENS / f"{name}.json", {"ids": ids, "decoded": changed})
    print(f"{name}: {len(ids)} strings, {sum(map(len, ids))} ids, {len(changed)} not decoded to themselves")


def write(path: Path, document) -> None:
    # Escaped: invisible characters and lone marks survive editors and diffs.
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
