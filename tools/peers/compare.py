#!/usr/bin/env python3
"""Quire's speed beside that of llama.cpp and OpenVINO GenAI, on the same file, threads and machine.

    ./dev bench [--set table,types,gemma,busy,start|all] [--pairs N] [--cases REGEX] [--threads N]
                [--isa avx2] [--model FILE.gguf] [--gemma FILE.gguf] [--out FILE]

table   prefill, decode, depths, batches and codecs on SmolLM2-135M (the default)
types   prefill and decode on the same model in six other weight types, written once to a scratch folder
gemma   prefill and decode on Gemma-3-270M
busy    decode while one other process is busy, as a share of the same engine's speed without it
start   from nothing to the first token, the file in the page cache

Each case is run in pairs, ABAB: Quire, then every peer, as often as --pairs says. A pair's ratio is Quire's
speed over that of the best peer in the same pair; the median of the ratios is what counts. Pairs during
which the hypervisor took over 10 % of the processors' time away are dropped. A peer that stayed under 0.7 of
the best one in the first two pairs of a case is not measured in its further ones: only the best counts.
Prints Markdown as it goes and writes all figures as JSON to FILE (default: peers.json in a scratch folder,
which is named) after every case, so that an interrupted run keeps what it has.
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cases
import pairs
import typed_files
from quire_peer import NAME, PROMPT, Quire

UNITS = {"prefill": "tok/s", "decode": "tok/s", "busy": "of its quiet speed", "start": "ms"}


def beside_a_busy_process(work) -> float:
    """What `work` gives while one other process computes."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        return work()
    finally:
        busy.kill()
        busy.wait()


class Runner:
    """Quire and its peers on one model file."""

    def __init__(self, quire: Quire, model: str, threads: int):
        self._quire = quire
        self._model = model
        self._peers = []
        for module in ("llama_cpp_peer", "openvino_peer"):
            try:
                library = importlib.import_module(module)
                self._peers.append((library.NAME, library.Peer(model, threads)))
            except (ImportError, RuntimeError) as error:
                print(f"{module}: left out: {str(error).strip().splitlines()[0]}", file=sys.stderr)

    def close(self) -> None:
        for _, peer in self._peers:
            peer.close()

    def contestants(self, case: cases.Case) -> dict:
        """Name -> a function that measures the case once."""
        runs = {NAME: lambda: self._ours(case)}
        for name, peer in self._peers:
            for variant in peer.variants(case):
                runs[f"{name} {variant}"] = lambda peer=peer, variant=variant: theirs(peer, case, variant)
        return runs

    def _ours(self, case: cases.Case) -> float:
        if case.kind == "start":
            return self._quire.start_ms(self._model)
        return speed_or_share(case, lambda kind: self._quire.speed(self._model, kind))


def theirs(peer, case: cases.Case, variant: str) -> float:
    if case.kind == "start":
        return peer.start_ms(variant, PROMPT)
    return speed_or_share(case, lambda kind: peer.speed(kind, variant))


def speed_or_share(case: cases.Case, speed) -> float:
    if case.kind != "busy":
        return speed(case)
    decode = cases.Case("decode", case.tokens)
    quiet = speed(decode)
    return beside_a_busy_process(lambda: speed(decode)) / quiet


def groups(args) -> list:
    """(set, model file, cases), one after the other; files of other types are made when their turn comes."""
    wanted = cases.SETS if args.set == "all" else args.set.split(",")
    unknown = [name for name in wanted if name not in cases.SETS]
    if unknown:
        sys.exit(f"--set knows {', '.join(cases.SETS)} and all, not {', '.join(unknown)}")
    plan = []
    if "table" in wanted:
        plan.append(("table", lambda: args.model, cases.TABLE))
    if "types" in wanted:
        for label in cases.TYPES:
            make = lambda label=label: typed_files.typed_file(args.quire, args.model, label)
            plan.append(("types", make, cases.of_type(label)))
    if "gemma" in wanted:
        plan.append(("gemma", lambda: args.gemma, cases.GEMMA))
    if "busy" in wanted:
        plan.append(("busy", lambda: args.model, cases.BUSY))
    if "start" in wanted:
        plan.append(("start", lambda: args.model, cases.START))
    chosen = [(name, file, [c for c in all if re.search(args.cases, c.name)]) for name, file, all in plan]
    return [(name, file, some) for name, file, some in chosen if some]


def table_row(result: dict) -> str:
    if "engines" not in result:
        return f"| {result['case']} | every pair was disturbed | | |"
    engines = dict(result["engines"])
    ours = described(engines.pop(NAME))
    others = "; ".join(f"{name} {described(figures)}" for name, figures in engines.items())
    low, high = result["ratio_p10"], result["ratio_p90"]
    return f"| {result['case']} | {ours} | {others} | **{result['ratio']}** ({low}–{high}) |"


def described(figures: dict) -> str:
    shown = f"{figures['median']:g} ({figures['p10']:g}–{figures['p90']:g})"
    return shown + (", left out after two pairs" if figures["left_out"] else "")


def run_group(args, quire: Quire, name: str, model: str, some: list, results: list, out: Path) -> None:
    runner = Runner(quire, model, args.threads)
    for case in some:
        contestants = runner.contestants(case)
        if len(contestants) == 1:
            print(f"| {case.name} | | no peer here runs it | |", flush=True)
            continue
        measured = pairs.run_pairs(contestants, args.pairs, NAME, less_is_better=case.kind == "start")
        results.append({"set": name, "case": case.name, "unit": UNITS[case.kind], "model": Path(model).name}
                       | measured)
        print(table_row(results[-1]), flush=True)
        out.write_text(json.dumps({"threads": args.threads, "isa": args.isa or "fastest", "results": results},
                                  indent=1) + "\n")
    runner.close()


def parse_arguments():
    home = Path(os.environ.get("QUIRE_HOME", Path.home() / ".local/share/quire"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", default=str(home / "models/smollm2.gguf"))
    parser.add_argument("--gemma", default=str(home / "models/gemma3.gguf"))
    parser.add_argument("--set", default="table", help="names, with commas; all: every one")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--cases", default="", help="only those whose name the expression finds")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", default="", help="QUIRE_ISA of Quire; peers keep their own instruction sets")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.pairs < 1 or args.threads < 1:
        parser.error("--pairs and --threads are at least 1")
    return args


def main() -> None:
    args = parse_arguments()
    plan = groups(args)
    if not plan:
        sys.exit(f"--cases {args.cases}: no case has such a name")
    out = args.out or Path(tempfile.mkdtemp(prefix="quire-bench-")) / "peers.json"
    quire = Quire(args.quire, args.threads, args.isa)
    isa = f", Quire with {args.isa} and the peers with their own instruction sets" if args.isa else ""
    print(f"{args.threads} threads{isa}; median (p10–p90) of {args.pairs} pairs")
    results = []
    shown = None
    for name, file, some in plan:
        model = file()
        if not Path(model).exists():
            sys.exit(f"{model} does not exist; ./dev model fetches the demo models")
        if name != shown:
            unit = UNITS[some[0].kind]
            print(f"\n**{name}**, {unit}\n\n| case | Quire | peers | Quire / best peer |\n|---|--:|---|---|", flush=True)
            shown = name
        run_group(args, quire, name, model, some, results, out)
    print(f"\nall figures: {out}")


if __name__ == "__main__":
    main()
