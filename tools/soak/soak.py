#!/usr/bin/env python3
"""Soaks of the server: `./dev soak chat|cancel|abuse|stall|latency|all [--short]`.

Each starts a server of its own on this machine, is bounded, prints one line per criterion and ends
with status 1 on a miss.
"""
import argparse
import asyncio
import importlib
import pathlib
import signal
import sys

SOAKS = ("chat", "cancel", "abuse", "stall", "latency")


def main():
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__)
    parser.add_argument("soak", choices=(*SOAKS, "all"))
    parser.add_argument("--short", action="store_true", help="a try of about half a minute")
    parser.add_argument("--model", default="smollm2", help="a GGUF file, a folder or a name")
    parser.add_argument("--binary", default=str(pathlib.Path(__file__).parents[2] / "build/quire"))
    options = parser.parse_args()
    if not pathlib.Path(options.binary).is_file():
        sys.exit(f"{options.binary} is not built: ./dev build")
    # As Ctrl-C: the server that was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 0
    for name in SOAKS if options.soak == "all" else (options.soak,):
        soak = importlib.import_module(name)
        status |= asyncio.run(soak.run(options.binary, options.model, options.short))
    return status


if __name__ == "__main__":
    sys.exit(main())
