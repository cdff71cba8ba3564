#!/usr/bin/env python3
"""Fails if an object file of one instruction set shares a symbol with other files.

The linker keeps one copy of an inline function that several object files define. If the kept copy came
from a file compiled for AVX-512, every caller would run it, on any machine. So an object file of one
instruction set may define, for others to see, only names inside its own namespace, and nothing weak.

usage: check_isa_symbols.py OBJECT...    (each named *_<name>.*, its namespace is <name>)
"""
import os
import re
import subprocess
import sys

# nm's letters: lower case is local to the file, except u (unique), v and w (weak).
SHARED = set("uvwVW")


def problems(path):
    name = re.match(r"\w+_([a-z0-9]+)\.", os.path.basename(path))
    isa = name.group(1) if name else None
    listing = subprocess.run(["nm", "--defined-only", "--demangle", path], check=True,
                             capture_output=True, text=True).stdout
    for line in listing.splitlines():
        kind, symbol = re.match(r"[0-9a-f]* *(\S) (.*)", line).groups()
        if kind in SHARED:
            yield f"{path}: shared with other files: {symbol}"
        elif kind.isupper() and not symbol.startswith(f"quire::kernels::{isa}::"):
            yield f"{path}: visible outside its namespace: {symbol}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found = [line for path in sys.argv[1:] for line in problems(path)]
    print("\n".join(found) if found else f"{len(sys.argv) - 1} object files share nothing")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
