"""Makes tests/data/real/<name>/: what a real GGUF file predicts for the texts beside it, in fp32.

    $(tools/oracle/setup.sh) tools/oracle/make_real_goldens.py smollm2 SmolLM2-135M-Instruct.Q4_1.gguf
    $(tools/oracle/setup.sh) tools/oracle/make_real_goldens.py gemma3 gemma-3-270m-q4_k_m.gguf \
        --tokenizer gemma3/tokenizer.json

The model runs in transformers on the file's dequantized weights. For every tests/data/real/*.txt:

    <text>.ids.npy         int32   [T]      token ids, BOS included where the model adds one
    <text>.nll.npy         float32 [T - 1]  -ln p of ids[1:], each given all before it
    <text>.lse.npy         float32 [T]      ln Σ exp of the logits after each token
    <text>.top_ids.npy     int32   [T, 32]  the ids with the highest logits, best first
    <text>.top_logits.npy  float32 [T, 32]  their logits

If the file has a chat template: chat.json, conversations as transformers renders them, with ids.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

import gguf_model
import gguf_tokenizer
import golden_logits

REAL = Path(__file__).resolve().parents[2] / "tests" / "data" / "real"
TOP = 32
CHATS = [
    [{"role": "user", "content": "Why is the sky blue?"}],
    [
        {"role": "system", "content": "You answer in one sentence."},
        {"role": "user", "content": "  Spaces, a tab\tand\n\na blank line \n"},
    ],
    [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello! How can I help you today?"},
        {"role": "user", "content": "Count to 12345. 数えて 🙂"},
    ],
    [
        {"role": "system", "content": ""},
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y"},
    ],
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, for models whose GGUF vocabulary is SentencePiece")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    folder = REAL / args.name
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else gguf_tokenizer.load(args.model)
    template = gguf_model.GgufFile(args.model).get("tokenizer.chat_template")
    if template:
        write_chats(folder / "chat.json", template, tokenizer)
    model = gguf_model.load(args.model)
    for text in sorted(REAL.glob("*.txt")):
        ids = tokenizer.encode(text.read_bytes().decode()).ids
        perplexity = write_predictions(folder, text.stem, model, ids)
        print(f"{args.name} {text.stem}: {len(ids)} tokens, perplexity {perplexity:.3f}", flush=True)


@torch.no_grad()
def write_predictions(folder: Path, stem: str, model: torch.nn.Module, ids: list[int]) -> float:
    """Writes the five arrays of one text; returns its perplexity."""
    lse, top_ids, top_logits, target_logits = [], [], [], []
    targets = torch.tensor(ids[1:] + [0])
    for logits, target in zip(golden_logits.logits_in_chunks(model, ids), targets.split(golden_logits.CHUNK_ROWS)):
        best = torch.topk(logits, TOP)
        lse.append(torch.logsumexp(logits.double(), dim=1).numpy())
        top_ids.append(best.indices.numpy())
        top_logits.append(best.values.numpy())
        target_logits.append(logits.gather(1, target[:, None])[:, 0].numpy())
    lse = np.concatenate(lse)
    nll = (lse - np.concatenate(target_logits))[:-1]
    arrays = {
        "ids": np.array(ids, np.int32),
        "nll": nll.astype(np.float32),
        "lse": lse.astype(np.float32),
        "top_ids": np.concatenate(top_ids).astype(np.int32),
        "top_logits": np.concatenate(top_logits).astype(np.float32),
    }
    for kind, array in arrays.items():
        np.save(folder / f"{stem}.{kind}.npy", array)
    return float(np.exp(nll.mean()))


def write_chats(path: Path, template: str, tokenizer: Tokenizer) -> None:
    """Every conversation with and without the generation prompt, rendered and tokenized."""
    rendered = []
    for messages in CHATS:
        for generate in (True, False):
            prompts, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=generate)
            ids = tokenizer.encode(prompts[0], add_special_tokens=False).ids
            rendered.append(
                {"messages": messages, "add_generation_prompt": generate, "prompt": prompts[0], "ids": ids}
            )
    path.write_text(json.dumps(rendered, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
