"""Speed of llama.cpp on a GGUF file, for comparison with `quire bench` in the same run.

    $(tools/oracle/setup.sh --peer) tools/oracle/peer_bench.py MODEL.gguf \
        [--prefill 512] [--decode 64] [--depth 0] [--threads 2] [--runs 5]

Prefill computes logits for the last token only; decode feeds one token a step, from `depth` tokens
on, and takes the logits of every step. Runs with flash attention and without alternate, so that a
busy machine hurts both alike. Prints one JSON document:

    {"model", "threads", "results": [{"test": "pp512", "depth", "flash", "tok_s_median", "tok_s": [...]}],
     "best": {"pp512": the better median, "tg64": ...}}
"""

import argparse
import ctypes
import json
import statistics
import time
from pathlib import Path

import llama_cpp

FLASH = {"off": 0, "on": 1}


class Peer:
    """One llama.cpp context."""

    def __init__(self, model, num_tokens: int, threads: int, flash: str):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = num_tokens
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = FLASH[flash]
        self._context = llama_cpp.llama_init_from_model(model, params)
        self._memory = llama_cpp.llama_get_memory(self._context)

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)

    def feed(self, num_tokens: int) -> None:
        """Runs ordinary tokens, 512 at a time; logits of the last of each batch."""
        for start in range(0, num_tokens, 512):
            count = min(512, num_tokens - start)
            tokens = (llama_cpp.llama_token * count)(*range(1000 + start, 1000 + start + count))
            if llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(tokens, count)):
                raise RuntimeError("llama_decode failed")
        llama_cpp.llama_synchronize(self._context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()

    silence_log()
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(bytes(args.model), llama_cpp.llama_model_default_params())
    window = args.depth + max(args.prefill, args.decode) + 64
    peers = {flash: Peer(model, window, args.threads, flash) for flash in FLASH}
    tests = {f"pp{args.prefill}": (args.prefill, prefill), f"tg{args.decode}": (args.decode, decode)}

    speeds = {(test, flash): [] for test in tests for flash in FLASH}
    for run in range(args.runs + 1):
        for test, (num_tokens, measure) in tests.items():
            for flash, peer in peers.items():
                seconds = measure(peer, args.depth, num_tokens)
                if run > 0:  # the first only warms up
                    speeds[test, flash].append(num_tokens / seconds)

    results = [
        {"test": test, "depth": args.depth, "flash": flash == "on",
         "tok_s_median": round(statistics.median(values), 2), "tok_s": [round(v, 2) for v in values]}
        for (test, flash), values in speeds.items()
    ]
    best = {test: max(r["tok_s_median"] for r in results if r["test"] == test) for test in tests}
    print(json.dumps({"model": args.model.name, "threads": args.threads, "results": results, "best": best}, indent=1))


def prefill(peer: Peer, depth: int, num_tokens: int) -> float:
    peer.clear()
    peer.feed(depth)
    start = time.perf_counter()
    peer.feed(num_tokens)
    return time.perf_counter() - start


def decode(peer: Peer, depth: int, num_tokens: int) -> float:
    peer.clear()
    peer.feed(depth + 1)
    start = time.perf_counter()
    for _ in range(num_tokens):
        peer.feed(1)
    return time.perf_counter() - start


@llama_cpp.llama_log_callback
def _ignore(level, text, user_data):
    pass


def silence_log() -> None:
    llama_cpp.llama_log_set(_ignore, ctypes.c_void_p())


if __name__ == "__main__":
    main()
