#!/usr/bin/env python3
"""Counts parameters of the configurations in tests/data/plan with transformers' own models.

Usage: tools/oracle/count_parameters.py [REPOSITORY]

Models are made on the meta device: nothing is downloaded or allocated. Writes
tests/data/plan/golden/parameters.json, which tests/plan compares with the planner's sums.
"""
import json
import pathlib
import sys

import torch
import transformers


def count(config: dict) -> int:
    config = dict(config.get("text_config", config))
    kind = config.pop("model_type")
    # Kimi K2 is a DeepSeek V3 by another name.
    kind = {"kimi_k2": "deepseek_v3"}.get(kind, kind)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(kind, **config))
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    folder = root / "tests/data/plan"
    transformers.logging.set_verbosity_error()
    counts = {path.stem: count(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))}
    (folder / "golden/parameters.json").write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
