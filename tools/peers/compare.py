#!/usr/bin/env python3
"""Quire's speed beside that of llama.cpp and OpenVINO GenAI, on the same file, threads and machine.

    ./dev bench [--pairs N] [--cases REGEX] [--threads N] [--model FILE.gguf] [--out FILE]

Each case is run in pairs, ABAB: Quire, then every peer, as often as --pairs says. A pair's ratio is Quire's
speed over that of the best peer in the same pair; the median of the ratios is what counts. Pairs during
which the hypervisor took over 10 % of the processors' time away are dropped. Prints a Markdown table as it
goes and writes all figures as JSON to FILE (default: peers.json in a scratch folder, which is named).
"""

import argparse
import dataclasses
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MOST_STOLEN = 0.10


@dataclasses.dataclass
class Case:
    kind: str  # "prefill" or "decode"
    tokens: int
    depth: int = 0
    batch: int = 1
    kv: str = "f16"

    @property
    def name(self) -> str:
        what = ("pp" if self.kind == "prefill" else "tg") + str(self.tokens)
        at = f" at {self.depth}" if self.depth else ""
        many = f" x {self.batch}" if self.batch > 1 else ""
        return what + at + many + ("" if self.kv == "f16" else f", {self.kv} cache")


CASES = [
    Case("prefill", 512),
    Case("prefill", 2048),
    Case("prefill", 7000),
    Case("prefill", 512, depth=2048),
    Case("prefill", 512, depth=2048, kv="q8"),
    Case("decode", 64),
    Case("decode", 48, depth=2048),
    Case("decode", 32, depth=8000),
    Case("decode", 32, depth=8000, kv="q8"),
    Case("decode", 32, batch=4),
    Case("decode", 32, batch=8),
    Case("decode", 32, batch=16),
]


class Quire:
    NAME = "Quire"

    def __init__(self, binary: str, model: str, threads: int):
        self._command = [binary, "bench", model, "--threads", str(threads), "-r", "1", "--json", "-q"]

    def measure(self, case: Case) -> float:
        which = (["--prefill", str(case.tokens), "--decode", "0"] if case.kind == "prefill"
                 else ["--prefill", "0", "--decode", str(case.tokens), "--batch", str(case.batch)])
        command = [*self._command, *which, "--depth", str(case.depth), "--kv", case.kv]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)["results"][0]["tok_s_median"]


def processor_ticks() -> tuple:
    fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[7]


def load_peers(model: str, threads: int) -> list:
    peers = []
    for module in ("llama_cpp_peer", "openvino_peer"):
        try:
            library = importlib.import_module(module)
            peers.append((library.NAME, library.Peer(model, threads)))
        except (ImportError, RuntimeError) as error:
            print(f"{module}: left out: {error}", file=sys.stderr)
    if not peers:
        sys.exit("no peer can be run here")
    return peers


def run_pair(quire: Quire, peers: list, case: Case) -> dict:
    before = processor_ticks()
    speeds = {Quire.NAME: quire.measure(case)}
    for name, peer in peers:
        for variant in peer.variants(case):
            speeds[f"{name} {variant}"] = peer.measure(case, variant)
    after = processor_ticks()
    stolen = (after[1] - before[1]) / max(1, after[0] - before[0])
    return {"speeds": speeds, "stolen": round(stolen, 4)}


def summarize(case: Case, pairs: list) -> dict:
    kept = [p for p in pairs if p["stolen"] <= MOST_STOLEN]
    result = {"case": case.name, "pairs": len(kept), "dropped": len(pairs) - len(kept), "raw": pairs}
    if not kept:
        return result
    names = kept[0]["speeds"].keys()
    result["medians"] = {n: round(statistics.median(p["speeds"][n] for p in kept), 1) for n in names}
    ratios = [p["speeds"][Quire.NAME] / max(v for n, v in p["speeds"].items() if n != Quire.NAME) for p in kept]
    result["ratio"] = round(statistics.median(ratios), 2)
    result["ratio_range"] = [round(min(ratios), 2), round(max(ratios), 2)]
    return result


def table_row(result: dict) -> str:
    if "medians" not in result:
        return f"| {result['case']} | every pair was disturbed | | |"
    medians = dict(result["medians"])
    ours = medians.pop(Quire.NAME)
    others = ", ".join(f"{name} {speed}" for name, speed in medians.items())
    low, high = result["ratio_range"]
    return f"| {result['case']} | {ours} | {others} | **{result['ratio']}** ({low}–{high}) |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--cases", default="", help="only those whose name the expression finds")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))

    quire = Quire(args.quire, args.model, args.threads)
    peers = load_peers(args.model, args.threads)
    out = args.out or Path(tempfile.mkdtemp(prefix="quire-bench-")) / "peers.json"
    print(f"{Path(args.model).name}, {args.threads} threads, tokens a second, medians\n")
    print("| case | Quire | peers | Quire / best peer, median of pairs |\n|---|--:|---|---|", flush=True)
    results = []
    for case in CASES:
        if not re.search(args.cases, case.name):
            continue
        if not any(peer.variants(case) for _, peer in peers):
            print(f"| {case.name} | | no peer here runs it | |", flush=True)
            continue
        results.append(summarize(case, [run_pair(quire, peers, case) for _ in range(args.pairs)]))
        print(table_row(results[-1]), flush=True)
        out.write_text(json.dumps({"model": Path(args.model).name, "threads": args.threads, "results": results},
                                  indent=1) + "\n")
    print(f"\nall figures: {out}")


if __name__ == "__main__":
    main()
