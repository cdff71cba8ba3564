"""Teacher-forced fp32 logits by transformers, and the two files a logits golden is.

    golden.json         {"tokens": [ids], "positions": [p...], "logits": "golden.npy", ...}
    golden.npy          float32 [len(positions), vocab]: the logits after token p, for p in positions
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

# Around page borders (64), window borders (32), and both ends.
POSITIONS = [0, 1, 2, 7, 30, 31, 32, 33, 62, 63, 64, 65, 95, 96, 97, 127, 128, 129, 148, 149]


CHUNK_ROWS = 64

logging.disable_progress_bar()


def load_folder(folder: Path) -> torch.nn.Module:
    """A Hugging Face folder in fp32; fails if a weight is missing or left over."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    problems = {key: value for key, value in info.items() if value}
    if problems:
        raise ValueError(f"{folder}: {problems}")
    return model.eval()


@torch.no_grad()
def logits_in_chunks(model: torch.nn.Module, tokens: list[int]) -> Iterator[torch.Tensor]:
    """float32 [<= CHUNK_ROWS, vocab], over all tokens: a large vocabulary never stands in memory whole."""
    hidden = model.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    for chunk in hidden.split(CHUNK_ROWS):
        yield model.lm_head(chunk)


@torch.no_grad()
def all_logits(model: torch.nn.Module, tokens: list[int]) -> np.ndarray:
    """float32 [tokens, vocab]."""
    return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def write_golden(path: Path, tokens: list[int], logits: np.ndarray, **extra) -> None:
    """Writes `path` (JSON) and, beside it under the same stem, the logits at POSITIONS (.npy)."""
    positions = [p for p in POSITIONS if p < len(tokens)]
    npy = path.with_suffix(".npy")
    np.save(npy, np.ascontiguousarray(logits[positions], dtype=np.float32))
    document = {"tokens": tokens, "positions": positions, "logits": npy.name, **extra}
    path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
