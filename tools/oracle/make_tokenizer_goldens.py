"""Makes tests/data/tokenizers/: Hugging Face's ids for ugly strings.

    $(tools/oracle/setup.sh) tools/oracle/make_tokenizer_goldens.py SHARED/tokenizers SmolLM2.gguf

strings.json         ["...", ...]: the strings of ugly_strings.py, in order
<tokenizer>.json     {"ids": [[...], ...], "decoded": {"3": "...", ...}}: for each string the ids,
                     special tokens in the text parsed, none added; and what decoding gives (special
                     tokens kept) wherever that is not the string itself

SHARED/tokenizers/<name>/tokenizer.json are the real gemma3, llama3, qwen3 and mistral_v1; smollm2 is
the one in the GGUF file. gpt2 has no file here: its pre-tokenizer is tested with SmolLM2's own
vocabulary, as <name> smollm2_gpt2 (digits not split).
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

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
