#!/usr/bin/env python3
"""Counts the instructions of forward passes and compares them with the committed counts.

Usage: tools/instruction_counts.py QUIRE [--update] [--baseline FILE]

Three small cases on tiny models, with one thread and QUIRE_ISA=avx2, under Valgrind's callgrind, which
counts the same on every machine: a gate for speed that no busy neighbour disturbs. Exits with 1 if a
case needs over 3 % more than FILE (tests/data/instruction_counts.json) says; --update writes the counts
there (say in the commit why they rose). Exits with 77 where Valgrind is missing.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASELINE = ROOT / "tests/data/instruction_counts.json"
TINY = ROOT / "tests/data/tiny"
MOST_RISE = 0.03
TEXT = "The keys and values of every token are kept in pages of 64 slots. " * 4
COMMON = ["--threads", "1", "--json", "--raw", "-p", TEXT]
CASES = {
    "prefill of Q4_1": ["score", TINY / "llama_gguf/q4_1.gguf", *COMMON],
    "decode of Q4_K_M at f16": ["run", TINY / "llama_k_gguf/q4_k_m.gguf", *COMMON, "-n", "40", "--temp", "0",
                                "--draft", "0"],
    "decode with windows at q8": ["run", TINY / "gemma3_gguf/q5_0_q8_0.gguf", *COMMON, "-n", "40", "--temp", "0",
                                  "--draft", "0", "--kv", "q8"],
}


def instructions(quire: str, arguments: list) -> int:
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--collect-atstart=no",
                   "--toggle-collect=quire::model::Transformer::forward*", quire, *map(str, arguments)]
        environment = dict(os.environ, QUIRE_ISA="avx2", QUIRE_HOME=folder)
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
        counted = re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.MULTILINE)
        return int(counted.group(1))


def main() -> int:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted")
        return 77
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quire")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--baseline", type=pathlib.Path, default=BASELINE)
    args = parser.parse_args()
    counts = {name: instructions(args.quire, arguments) for name, arguments in CASES.items()}
    if args.update:
        args.baseline.write_text(json.dumps(counts, indent=1) + "\n")
    known = json.loads(args.baseline.read_text())
    risen = 0
    for name, count in counts.items():
        rise = count / known[name] - 1
        risen += rise > MOST_RISE
        print(f"{name}: {count:,} instructions, {100 * rise:+.2f} % {'TOO MANY' if rise > MOST_RISE else ''}".rstrip())
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
