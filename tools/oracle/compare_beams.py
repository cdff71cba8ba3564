"""How much Quire's best beams are worth to transformers, which searches the same prompts in fp32.

    $(tools/oracle/setup.sh) tools/oracle/compare_beams.py build/quire MODEL.gguf [--beams 4] [-n 32] \
        [--kv q8] [--act f32] [--max-loss 0.05]

Both search the same prompts; transformers then scores both best answers. Prints one JSON document:
    prompts[{prompt, same, quire, oracle, loss}]   log-probability per token of each best answer, as
                                                   transformers sees it, and oracle - quire
    loss{mean,max}, same                           over all prompts; how many answers were the same
Exit status 5 if a loss is above the limit.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch

import gguf_model
from make_beam_goldens import REAL_ENDS, search

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "To make a good cup of tea, you should first",
    "def fibonacci(n):\n",
    "The three laws of thermodynamics are:",
    "Dear Mr. Smith,\n\nThank you for",
    "Photosynthesis is the process by which",
    "The best way to learn a language is",
    "In 1969, the first humans",
    "import numpy as np\n\n",
    "Q: Why is the sky blue?\nA:",
    "The recipe calls for two eggs, a cup of flour and",
    "My favourite book is",
    "A triangle with two equal sides is called",
    "The committee decided yesterday that",
    "He opened the door and saw",
    "Water boils at",
    "1, 2, 4, 8, 16,",
    "Translate to French: Good morning.\n",
    "The difference between a virus and a bacterium is",
    "<html>\n<head>\n",
    "It was a dark and stormy night;",
    "The mitochondria are",
    "To sum up, the main arguments are",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quire", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--ends", default="smollm2", choices=sorted(REAL_ENDS), help="whose ends of generation")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("-n", type=int, default=32)
    parser.add_argument("--act", default="int8")
    parser.add_argument("--kv", default="f16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-loss", type=float, default=float("inf"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    model = gguf_model.load(args.model)
    rules = {"beams": args.beams, "length_penalty": 1.0, "early_stopping": False, "max_tokens": args.n}
    rows = []
    for prompt in PROMPTS:
        ids = quire(args, "tokens", "--raw", "-p", prompt)["ids"]
        ours = quire(args, "run", "--raw", "-p", prompt, "--beams", str(args.beams), "-n", str(args.n),
                     "--act", args.act, "--kv", args.kv)["tokens"]
        theirs = search(model, ids, REAL_ENDS[args.ends], rules)[0]["tokens"]
        mine, best = per_token(model, ids, ours), per_token(model, ids, theirs)
        rows.append({"prompt": prompt, "same": ours == theirs, "quire": mine, "oracle": best, "loss": best - mine})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    losses = [row["loss"] for row in rows]
    report = {
        "prompts": rows,
        "loss": {"mean": sum(losses) / len(losses), "max": max(losses)},
        "same": sum(row["same"] for row in rows),
    }
    print(json.dumps(report, indent=1))
    if max(losses) > args.max_loss:
        sys.exit(5)


def quire(args: argparse.Namespace, command: str, *options: str) -> dict:
    called = subprocess.run([args.quire, command, args.model, *options, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(called.stdout)


@torch.no_grad()
def per_token(model: torch.nn.Module, prompt: list[int], answer: list[int]) -> float:
    """Mean log-probability of the answer's tokens."""
    logits = model(torch.tensor([prompt + answer]), use_cache=False).logits[0, len(prompt) - 1 : -1]
    return logits.double().log_softmax(dim=1).gather(1, torch.tensor(answer)[:, None]).mean().item()


if __name__ == "__main__":
    main()
