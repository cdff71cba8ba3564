#!/usr/bin/env python3
"""Compares Quire's tokenizers with Hugging Face's on endless random ugly text.

Usage: compare_tokenizers.py --peer build/tests/context/quire_tokenizer_peer [--count N] [--seed S]
           [--parsed-only] [--ids-below N] [--characters] [--named NAME,... --vocabulary FOLDER]
           [FOLDER | GGUF=FOLDER | GGUF ...]

A FOLDER holds tokenizer.json; GGUF=FOLDER compares a GGUF file with the tokenizer.json it came from;
a byte-level GGUF alone is compared with what its own vocabulary and pre-tokenizer make of it.
--named compares GGUF files that are made here from the byte-level vocabulary in FOLDER with the
pre-tokenizers of these names ("all": every one). --characters first takes every character of Unicode
in turn, between letters, digits, spaces and punctuation. Without --count it runs until a difference or
Ctrl-C. Needs PyPI's `tokenizers` and, for --named, `gguf`. Exit code 5 for a difference, which is
printed with the shortest text found that still shows it.
"""
import argparse
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import unicodedata

from tokenizers import Tokenizer

SCRIPTS = [
    (0x0021, 0x007E), (0x00A1, 0x024F), (0x0250, 0x02FF), (0x0300, 0x036F), (0x0370, 0x03FF),
    (0x0400, 0x052F), (0x0590, 0x05FF), (0x0600, 0x06FF), (0x0900, 0x097F), (0x0E00, 0x0E7F),
    (0x0F00, 0x0FFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x1E00, 0x1FFF),
    (0x2000, 0x206F), (0x2070, 0x214F), (0x2150, 0x218F), (0x2200, 0x22FF), (0x2460, 0x24FF),
    (0x2580, 0x26FF), (0x2E80, 0x303F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xA000, 0xA4CF),
    (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFD),
    (0x10000, 0x101FF), (0x10D40, 0x10D8F), (0x16100, 0x1613F), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0x31350, 0x323AF), (0xE0000, 0xE01EF),
]
SPACES = [" ", "  ", "   ", " " * 9, " " * 40, "\t", "\t\t", "\n", "\n\n", "\n" * 35, "\r\n", "\r",
          " \n", "\n ", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u180e", "\u2003", "\u200b",
          "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", "\u00ad"]
CONTRACTIONS = ["'s", "'S", "'t", "'RE", "'ve", "'Ve", "'m", "'LL", "'d", "'\u017f", "\u2019s",
                "'x", "''", "don't", "I'M", "we'll", "it's", "they've"]
WORDS = ("the quick brown fox Hello WORLD tokenization antidisestablishmentarianism caf\u00e9 "
         "cafe\u0301 na\u00efve \ufb01ne \u00c5ngstr\u00f6m A\u030angstrom \u1e9b\u0323 d\u0323\u0307 "
         "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \u4f60\u597d \u4e16\u754c \u3053\u3093\u306b\u3061\u306f "
         "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u041f\u0440\u0438\u0432\u0435\u0442 "
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u05e9\u05dc\u05d5\u05dd \U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 "
         "\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2581 \u2581\u2581 \u2581the \u0120the <0x0A> <0xE7> "
         "def return self.x != nullptr; http://a.b/c?d=e&f 3.14159 0x7f 1e-9 \u0664\u0665 \u2167 \u00bd \u00b2"
         ).split(" ")
MARKUP = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<bos>", "<eos>",
          "<start_of_turn>", "<end_of_turn>", "<|begin_of_text|>", "<|eot_id|>", "<|", "|>", "<think>",
          "</think>", "<tool_call>", "[INST]", "[/INST]", "<|im_start", "<table>", "</h1>", "<unused7>"]


def random_text(rng, added):
    parts = []
    for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 30])):
        kind = rng.randrange(10)
        if kind == 0:
            low, high = rng.choice(SCRIPTS)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 12))))
        elif kind == 1:
            parts.append(rng.choice(SPACES))
        elif kind == 2:
            parts.append(rng.choice(CONTRACTIONS))
        elif kind == 3:
            parts.append("".join(rng.choice("0123456789.,") for _ in range(rng.randint(1, 12))))
        elif kind == 4 and added:
            token = rng.choice(added)
            parts.append(token if rng.random() < 0.8 else token[:rng.randint(1, len(token))])
        elif kind == 5:
            parts.append(rng.choice(MARKUP))
        elif kind == 6:
            parts.append(rng.choice("!?.,;:-_()[]{}<>/\\|@#$%^&*+=~`\"'") * rng.randint(1, 6))
        elif kind == 7:
            word = rng.choice(WORDS)
            parts.append(rng.choice([word, word.upper(), word * rng.randint(1, 4),
                                     unicodedata.normalize("NFD", word)]))
        elif kind == 8:
            while True:
                code = rng.randrange(0x110000) if rng.random() < 0.3 else rng.randrange(0x3000)
                if not 0xD800 <= code <= 0xDFFF:
                    break
            parts.append(chr(code) * rng.choice([1, 1, 2, 7]))
        else:
            parts.append(rng.choice([" ", ""]) + rng.choice(WORDS))
    return "".join(parts)


class Peer:
    def __init__(self, binary, model):
        self.process = subprocess.Popen([binary, model], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def encode(self, texts, plain):
        """Ids of each text. A thread writes, since both pipes may fill up."""
        def write():
            for text in texts:
                self.process.stdin.write(
                    json.dumps({"text": text, "plain": plain}, ensure_ascii=False) + "\n")
            self.process.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        lines = [self.process.stdout.readline() for _ in texts]
        writer.join()
        if not all(lines):
            sys.exit("the peer ended")
        return [json.loads(line)["ids"] for line in lines]


class Comparison:
    """One of Quire's tokenizers beside Hugging Face's."""

    ids_below = None  # a GGUF file may hold fewer tokens than tokenizer.json

    def __init__(self, name, oracle, peer, added):
        self.name, self.oracle, self.peer, self.added = name, oracle, peer, added
        self.done = 0

    def ids(self, texts, plain):
        self.oracle.encode_special_tokens = plain
        return ([e.ids for e in self.oracle.encode_batch(texts, add_special_tokens=False)],
                self.peer.encode(texts, plain))

    def first_difference(self, texts, plain):
        expected, got = self.ids(texts, plain)
        self.done += len(texts)
        for text, one, other in zip(texts, expected, got):
            if self.ids_below is not None and max(one, default=0) >= self.ids_below:
                self.done -= 1
            elif one != other:
                return text
        return None

    def differs(self, text, plain):
        expected, got = self.ids([text], plain)
        return expected != got

    def shortest(self, text, plain):
        """Drops characters as long as the difference stays."""
        step = max(1, len(text) // 2)
        while step:
            at = 0
            while at < len(text):
                shorter = text[:at] + text[at + step:]
                if self.differs(shorter, plain):
                    text = shorter
                else:
                    at += step
            step //= 2
        return text

    def report(self, text, plain):
        text = self.shortest(text, plain)
        expected, got = self.ids([text], plain)
        print(f"{self.name}: {'plain' if plain else 'parsed'} {text!r}\n"
              f"  Hugging Face: {expected[0]}\n  Quire:        {got[0]}", flush=True)


def from_files(binary, argument):
    model, _, folder = argument.rpartition("=")
    if not model and pathlib.Path(argument).is_file():
        import gguf_tokenizer
        oracle = gguf_tokenizer.load(pathlib.Path(argument))
        return Comparison(argument, oracle, Peer(binary, argument),
                          [token.content for token in oracle.get_added_tokens_decoder().values()])
    path = pathlib.Path(folder) / "tokenizer.json"
    oracle = Tokenizer.from_file(str(path))
    oracle.no_truncation()
    added = [t["content"] for t in json.loads(path.read_text(encoding="utf-8"))["added_tokens"]]
    return Comparison(argument, oracle, Peer(binary, model or folder), added)


def from_names(binary, names, folder, work):
    import gguf_tokenizer
    words = gguf_tokenizer.vocabulary(pathlib.Path(folder) / "tokenizer.json")
    tokens, types, merges = words
    added = [token for token, kind in zip(tokens, types) if kind in (3, 4)]
    for name in gguf_tokenizer.NAMED if names == "all" else names.split(","):
        path = pathlib.Path(work) / f"{name}.gguf"
        gguf_tokenizer.write_gguf(path, name, tokens, types, merges)
        yield Comparison(f"pre {name}", gguf_tokenizer.build(name, tokens, types, merges),
                         Peer(binary, str(path)), added)


def every_character():
    """Texts in which each character stands between others of several kinds."""
    between = ["a", "1", " ", "!", "B", "\n", "\u4f60", "", "  ", "'"]
    codes = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    for at in range(0, len(codes), 40):
        part = [chr(c) for c in codes[at:at + 40]]
        yield "".join(c + between[(at // 40 + i) % len(between)] for i, c in enumerate(part))


def batches(texts, size=200):
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def run(comparison, options):
    """Whether no difference was found."""
    if options.characters:
        for texts in batches(every_character()):
            text = comparison.first_difference(texts, False)
            if text is not None:
                comparison.report(text, False)
                return False
    rng = random.Random(options.seed)
    done = 0
    while options.count == 0 or done < options.count:
        texts = [random_text(rng, comparison.added) for _ in range(min(200, options.count or 200))]
        plain = not options.parsed_only and rng.random() < 0.3
        text = comparison.first_difference(texts, plain)
        if text is not None:
            comparison.report(text, plain)
            return False
        done += len(texts)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", default="build/tests/context/quire_tokenizer_peer",
                        help="the quire_tokenizer_peer binary")
    parser.add_argument("--count", type=int, default=0, help="texts per tokenizer; 0 is no end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parsed-only", action="store_true",
                        help="never as plain text: a GGUF file may call other tokens special")
    parser.add_argument("--ids-below", type=int, metavar="N",
                        help="pass over texts with other ids: a GGUF file may hold fewer tokens")
    parser.add_argument("--characters", action="store_true", help="every character first")
    parser.add_argument("--named", metavar="NAME,...", help="pre-tokenizers of GGUF, or all")
    parser.add_argument("--vocabulary", metavar="FOLDER", help="the vocabulary for --named")
    parser.add_argument("models", nargs="*", metavar="FOLDER | GGUF=FOLDER | GGUF")
    options = parser.parse_args()
    if bool(options.named) != bool(options.vocabulary):
        parser.error("--named and --vocabulary go together")
    Comparison.ids_below = options.ids_below
    failed = False
    with tempfile.TemporaryDirectory() as work:
        comparisons = (from_files(options.peer, model) for model in options.models)
        if options.named:
            comparisons = itertools.chain(
                comparisons, from_names(options.peer, options.named, options.vocabulary, work))
        for comparison in comparisons:
            same = run(comparison, options)
            failed |= not same
            print(f"{comparison.name}: {comparison.done} texts, "
                  f"{'no difference' if same else 'DIFFERENT'}", flush=True)
    sys.exit(5 if failed else 0)


if __name__ == "__main__":
    main()
