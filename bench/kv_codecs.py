#!/usr/bin/env python3
"""Whether quantized keys and values cost speed: decoding deep in the window, prefill at 2k.

    python3 bench/kv_codecs.py build/quire MODEL [--codec q8] [--rounds 3] [--depth 8064] [--prefill 2048]

Runs `quire bench` for f16 and the codec in turn, as many rounds as asked, and compares medians, so
that a machine that slows down meanwhile slows both. Exit code 5 if decoding is slower than with f16
or prefill more than 10 % slower; --tolerance adds what the machine's noise may take.
"""
import argparse
import json
import statistics
import subprocess
import sys


def bench(args, codec):
    """Tokens a second of one round: {"tg32": ..., "pp2048": ...}, and the report they came from."""
    speeds = {}
    for prefill, decode, depth in ((0, args.decode, args.depth), (args.prefill, 0, 0)):
        command = [args.quire, "bench", args.model, "--kv", codec, "--prefill", str(prefill),
                   "--decode", str(decode), "--depth", str(depth), "-r", str(args.repetitions), "--json"]
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for result in report["results"]:
            speeds[result["test"]] = result["tok_s_median"]
    return speeds, report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("--codec", default="q8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--depth", type=int, default=8064)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--prefill", type=int, default=2048)
    parser.add_argument("--tolerance", type=float, default=0.0, help="share of speed, such as 0.05")
    args = parser.parse_args()

    rounds = {"f16": [], args.codec: []}
    for _ in range(args.rounds):
        for codec in rounds:
            speeds, report = bench(args, codec)
            rounds[codec].append(speeds)
    print(f"{report['machine']}, {report['isa']}, {report['threads']} threads; median of {args.rounds} rounds")
    bounds = {f"tg{args.decode}": 1.0, f"pp{args.prefill}": 0.9}
    missed = False
    for test, least in bounds.items():
        f16, codec = (statistics.median(r[test] for r in rounds[name]) for name in rounds)
        ok = codec / f16 >= least - args.tolerance
        missed |= not ok
        depth = args.depth if test.startswith("tg") else 0
        print(f"{test:>7} at {depth:>5}: f16 {f16:8.1f} tok/s, {args.codec} {codec:8.1f} tok/s, "
              f"ratio {codec / f16:.3f} (at least {least}): {'ok' if ok else 'MISSED'}")
    return 5 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
