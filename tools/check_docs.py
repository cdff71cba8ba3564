#!/usr/bin/env python3
"""Runs the commands that a document shows, and compares what they print with what it says.

    python3 tools/check_docs.py QUIRE DOCUMENT... [--update] [--only TEXT]

In a block that begins with ```console, a line "$ command" is run by bash in the repository's root,
with `quire` on the path; the lines below it, up to the next "$", are its output on both streams.
"[exit 4]" as the last line says that the command must fail with 4. Times and speeds differ from run
to run: a number with a unit of time or speed, and its share of the width of a column, are not
compared. --update writes the real output into the document. A command that names a model which is
not there is skipped; 77 if all are.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("smollm2", "gemma3")
# What no two runs share: times, speeds, ratios of times.
VARYING = re.compile(r"\d[\d,.]*(?=\s*(?:ms|s|tok/s|GB/s|x)\b)")


def models_folder():
    if "QUIRE_TEST_MODELS" in os.environ:
        return pathlib.Path(os.environ["QUIRE_TEST_MODELS"])
    home = os.environ.get("QUIRE_HOME", os.path.expanduser("~/.local/share/quire"))
    return pathlib.Path(home) / "models"


def comparable(line):
    return re.sub(r"\s+", " ", VARYING.sub("#", line)).strip()


class Block:
    """A console block: its place in the document, and pairs of a command and its output."""

    def __init__(self, first_line):
        self.first_line = first_line
        self.commands = []

    def add(self, line):
        if line.startswith("$ "):
            self.commands.append((line[2:], []))
        elif self.commands:
            self.commands[-1][1].append(line)


def read_blocks(lines):
    blocks, current = [], None
    for number, line in enumerate(lines):
        if current is None and line == "```console":
            current = Block(number)
        elif current is not None and line == "```":
            current.last_line = number
            blocks.append(current)
            current = None
        elif current is not None:
            current.add(line)
    return blocks


def run(command, quire):
    """What the command prints, as lines, with [exit N] when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(quire, os.path.join(folder, "quire"))
        # Models are found where they are; nothing else of the user's is read or written.
        os.symlink(models_folder(), os.path.join(folder, "models"))
        env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], QUIRE_HOME=folder, LC_ALL="C.UTF-8")
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = done.stdout.decode(errors="replace").replace(folder, "~/.local/share/quire")
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    return lines + ([f"[exit {done.returncode}]"] if done.returncode else [])


def missing_model(command):
    return any(name in command.split() and not (models_folder() / f"{name}.gguf").exists() for name in MODELS)


def check(document, quire, update, only):
    """Numbers of commands that ran and that differ."""
    lines = pathlib.Path(document).read_text().split("\n")
    ran = wrong = 0
    for block in reversed(read_blocks(lines)):
        fresh = ["```console"]
        for command, said in block.commands:
            fresh.append("$ " + command)
            if missing_model(command) or (only and only not in command):
                fresh.extend(said)
                continue
            ran += 1
            real = run(command, quire)
            fresh.extend(real)
            if [comparable(l) for l in real] != [comparable(l) for l in said]:
                wrong += 1
                if not update:
                    print(f"{document}:{block.first_line + 1}: $ {command}\n  says:\n" +
                          "\n".join("    " + l for l in said) + "\n  prints:\n" +
                          "\n".join("    " + l for l in real))
        lines[block.first_line:block.last_line] = fresh
        if update:
            pathlib.Path(document).write_text("\n".join(lines))
    return ran, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("documents", nargs="+")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", help="only commands that contain this text")
    args = parser.parse_args()
    ran = wrong = 0
    for document in args.documents:
        counts = check(document, os.path.abspath(args.quire), args.update, args.only)
        ran, wrong = ran + counts[0], wrong + counts[1]
    print(f"{ran} commands ran, {wrong} {'were updated' if args.update else 'differ from what is written'}")
    if ran == 0:
        return 77
    return 1 if wrong and not args.update else 0


if __name__ == "__main__":
    sys.exit(main())
