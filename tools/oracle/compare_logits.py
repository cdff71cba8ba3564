"""Full comparison of Quire's logits with transformers in fp32 on the same GGUF file and text.

    build/quire score MODEL.gguf -f TEXT --act f32 --kv f32 --logits out.npy
    $(tools/oracle/setup.sh) tools/oracle/compare_logits.py MODEL.gguf TEXT out.npy \
        [--tokenizer tokenizer.json] [--max-mean-kl 1e-5] [--min-top1 0.995]

Prints one JSON document:
    kl{mean,p99,max}      KL(transformers || Quire) per position, nats
    top1_agreement        share of positions with the same argmax
    flips_at_margin_1     positions where transformers leads by >= 1 logit and Quire's argmax differs
    nll{oracle,quire,difference}   mean over the text's tokens
    max_rel_diff          largest |difference| of a logit, over the rms of the oracle's logits
Exit status 5 if a limit that was given is broken.
"""

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

import gguf_model
import gguf_tokenizer
import golden_logits


@dataclass
class Comparison:
    """Per-position figures, gathered chunk by chunk."""

    kl: list[float] = field(default_factory=list)
    agrees: list[bool] = field(default_factory=list)
    margin: list[float] = field(default_factory=list)
    oracle_nll: list[float] = field(default_factory=list)
    quire_nll: list[float] = field(default_factory=list)
    max_diff: float = 0.0
    sum_of_squares: float = 0.0
    num_logits: int = 0

    def add(self, oracle: torch.Tensor, quire: torch.Tensor, targets: torch.Tensor) -> None:
        """One chunk: logits [rows, vocab] of both, and the id that follows each row."""
        oracle, quire = oracle.double(), quire.double()
        log_p, log_q = oracle.log_softmax(dim=1), quire.log_softmax(dim=1)
        best_two = oracle.topk(2).values
        self.kl += (log_p.exp() * (log_p - log_q)).sum(dim=1).tolist()
        self.agrees += (oracle.argmax(dim=1) == quire.argmax(dim=1)).tolist()
        self.margin += (best_two[:, 0] - best_two[:, 1]).tolist()
        self.oracle_nll += (-log_p.gather(1, targets[:, None])[:, 0]).tolist()
        self.quire_nll += (-log_q.gather(1, targets[:, None])[:, 0]).tolist()
        self.max_diff = max(self.max_diff, (oracle - quire).abs().max().item())
        self.sum_of_squares += oracle.square().sum().item()
        self.num_logits += oracle.numel()

    def report(self) -> dict:
        kl, agrees, margin = np.array(self.kl), np.array(self.agrees), np.array(self.margin)
        flips = np.flatnonzero(~agrees & (margin >= 1))
        oracle_nll, quire_nll = np.mean(self.oracle_nll[:-1]), np.mean(self.quire_nll[:-1])
        return {
            "tokens": len(kl),
            "kl": {"mean": kl.mean(), "p99": np.quantile(kl, 0.99), "max": kl.max()},
            "top1_agreement": agrees.mean(),
            "flips_at_margin_1": flips.tolist(),
            "largest_flipped_margin": margin[~agrees].max(initial=0.0),
            "nll": {"oracle": oracle_nll, "quire": quire_nll, "difference": quire_nll - oracle_nll},
            "max_rel_diff": self.max_diff / np.sqrt(self.sum_of_squares / self.num_logits),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("logits", type=Path, help="float32 [tokens, vocab], from quire score --logits")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-mean-kl", type=float, default=float("inf"))
    parser.add_argument("--min-top1", type=float, default=0.0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    tokenizer = Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else gguf_tokenizer.load(args.model)
    ids = tokenizer.encode(args.text.read_bytes().decode()).ids
    quire = np.load(args.logits, mmap_mode="r")
    if len(quire) != len(ids):
        sys.exit(f"{args.logits} has {len(quire)} rows, but {args.text} is {len(ids)} tokens")

    report = compare(gguf_model.load(args.model), ids, quire).report()
    print(json.dumps(report, indent=1, default=float))
    if report["kl"]["mean"] > args.max_mean_kl or report["top1_agreement"] < args.min_top1:
        sys.exit(5)


@torch.no_grad()
def compare(model: torch.nn.Module, ids: list[int], quire: np.ndarray) -> Comparison:
    comparison = Comparison()
    targets = torch.tensor(ids[1:] + [0])
    start = 0
    for oracle in golden_logits.logits_in_chunks(model, ids):
        rows = slice(start, start + len(oracle))
        comparison.add(oracle, torch.tensor(quire[rows]), targets[rows])
        start = rows.stop
    return comparison


if __name__ == "__main__":
    main()
