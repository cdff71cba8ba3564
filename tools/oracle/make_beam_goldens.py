"""Makes tests/data/beams/<model>.json: what beam search in transformers answers.

    $(tools/oracle/setup.sh) tools/oracle/make_beam_goldens.py tiny [name ...]
    $(tools/oracle/setup.sh) tools/oracle/make_beam_goldens.py real smollm2 SmolLM2-135M-Instruct.Q4_1.gguf

    {"transformers": version, "prompts": [[ids]...], "cases": [{"prompt": index, "end_tokens": [ids],
     "beams", "length_penalty", "early_stopping", "max_tokens", "answers": [{"tokens", "score"}...]}]}

Everything runs in fp32 on the weights as stored. `end_tokens` is the whole list at which an answer
ends: the model's own and, for tiny models, tokens that are likely on the way, so that beams
finish at all lengths. A case of a tiny model whose answers change in float64 is left out: there,
rounding decides.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
import torch
import transformers

import gguf_model
import golden_logits

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
TINY_MODELS = ["llama_tied", "llama_untied", "llama3_rope", "gemma3", "gemma3_legacy"]
EARLY_STOPPING = [False, True, "never"]
LENGTH_PENALTIES = [0.0, 1.0, -1.0, 2.0]
# Token ids from the golden prompt: short, with a page's border (64) among the new tokens, and
# behind the tiny models' window of 32.
TINY_PROMPTS = [(0, 7), (0, 55), (0, 120)]
# So many of the runners-up along an answer end one too.
MORE_ENDS = [0, 4, 2, 8]
# <|endoftext|> and <|im_end|>.
REAL_ENDS = {"smollm2": [0, 2]}
REAL_MAX_TOKENS = 20
# Beams, length penalty and early stopping of each prompt's search.
REAL_RULES = [(4, 1.0, False), (3, 0.0, "never"), (5, 2.0, True), (2, -1.0, False), (4, 1.0, False)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("tiny").add_argument("names", nargs="*", default=TINY_MODELS)
    real = what.add_parser("real")
    real.add_argument("name")
    real.add_argument("model", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    (DATA / "beams").mkdir(exist_ok=True)
    if args.what == "real":
        make_real(args.name, args.model)
    else:
        for name in args.names:
            make_tiny(name)


def make_tiny(name: str) -> None:
    folder = DATA / "tiny" / name
    tokens = json.loads((folder / "golden.json").read_text())["tokens"]
    prompts = [tokens[begin:end] for begin, end in TINY_PROMPTS]
    model = golden_logits.load_folder(folder)
    exact = golden_logits.load_folder(folder).double()
    own_ends = model_ends(folder)
    cases, dropped = [], 0
    # Half of all combinations, the other half with the next model; prompt and length vary.
    variants = list(itertools.product(range(2, 6), LENGTH_PENALTIES, EARLY_STOPPING))
    for i, (beams, penalty, early) in list(enumerate(variants))[TINY_MODELS.index(name) % 2 :: 2]:
        prompt = (i + i // 3) % len(prompts)
        rules = {"beams": beams, "length_penalty": penalty, "early_stopping": early, "max_tokens": 12 + 4 * (i // 3 % 4)}
        ends = own_ends + runners_up(model, prompts[prompt], own_ends)[: MORE_ENDS[i // 2 % len(MORE_ENDS)]]
        case = {"prompt": prompt, "end_tokens": ends, **rules}
        answers = search(model, prompts[prompt], ends, rules)
        if [a["tokens"] for a in answers] == [a["tokens"] for a in search(exact, prompts[prompt], ends, rules)]:
            cases.append({**case, "answers": answers})
        else:
            dropped += 1
    write(name, prompts, cases)
    finished = sum(a["tokens"][-1] in c["end_tokens"] for c in cases for a in c["answers"])
    print(f"{name}: {len(cases)} cases ({dropped} left out), {finished} answers that ended by themselves", flush=True)


def make_real(name: str, path: Path) -> None:
    chats = json.loads((DATA / "real" / name / "chat.json").read_text())
    prose = np.load(DATA / "real" / name / "prose.ids.npy").tolist()
    prompts = [chat["ids"] for chat in chats if chat["add_generation_prompt"]][:2] + [prose[:40], prose[300:340], prose[600:640]]
    model = gguf_model.load(path)
    ends = REAL_ENDS[name]
    cases = []
    for prompt, (beams, penalty, early) in enumerate(REAL_RULES):
        rules = {
            "beams": beams,
            "length_penalty": penalty,
            "early_stopping": early,
            "max_tokens": REAL_MAX_TOKENS,
        }
        cases.append({"prompt": prompt, "end_tokens": ends, **rules, "answers": search(model, prompts[prompt], ends, rules)})
        print(f"{name}: {rules}, best {cases[-1]['answers'][0]['score']:.4f}", flush=True)
    write(name, prompts, cases)


def model_ends(folder: Path) -> list[int]:
    """EOS as generation_config.json, else config.json, says it."""
    for file in ("generation_config.json", "config.json"):
        if (folder / file).exists():
            eos = json.loads((folder / file).read_text()).get("eos_token_id")
            if eos is not None:
                return eos if isinstance(eos, list) else [eos]
    return []


@torch.no_grad()
def runners_up(model: torch.nn.Module, prompt: list[int], ends: list[int]) -> list[int]:
    """The second and third likeliest tokens at some places of a greedy answer, the later places last."""
    answer = list(prompt)
    found = []
    for step in range(10):
        best = model(torch.tensor([answer]), use_cache=False).logits[0, -1].topk(3).indices.tolist()
        answer.append(best[0])
        if step in (1, 3, 5, 9):
            found += [token for token in best[1:] if token not in ends + found + answer]
    return found


@torch.no_grad()
def search(model: torch.nn.Module, prompt: list[int], ends: list[int], rules: dict) -> list[dict]:
    """All answers of one beam search, best first."""
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        generation_config=transformers.GenerationConfig(
            do_sample=False,
            num_beams=rules["beams"],
            num_return_sequences=rules["beams"],
            length_penalty=rules["length_penalty"],
            early_stopping=rules["early_stopping"],
            max_new_tokens=rules["max_tokens"],
            eos_token_id=ends,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        ),
    )
    answers = []
    for ids, beams, score in zip(found.sequences, found.beam_indices, found.sequences_scores):
        length = int((beams >= 0).sum())  # what follows is padding
        answers.append({"tokens": ids[len(prompt) : len(prompt) + length].tolist(), "score": round(float(score), 6)})
    return answers


def write(name: str, prompts: list[list[int]], cases: list[dict]) -> None:
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    head = json.dumps({"transformers": transformers.__version__, "prompts": prompts}, separators=(",", ":"))
    (DATA / "beams" / f"{name}.json").write_text(f'{head[:-1]},"cases":[\n{lines}]}}\n')


if __name__ == "__main__":
    main()
