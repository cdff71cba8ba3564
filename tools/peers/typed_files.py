"""The same model in other weight types, made once in a scratch folder and kept there.

Quire writes F16, Q8_0 and Q4_0; the types that it only reads are written by llama.cpp's quantizer from the
F16 file. Where a matrix's width is no multiple of 256, as most of SmolLM2-135M's are not, llama.cpp stores
it in the nearest type of 32 columns, and the file says so; both engines read the same file.
"""

import os
import subprocess
import sys
from pathlib import Path

BY_QUIRE = {"F16": "f16", "Q8_0": "q8_0", "Q4_0": "q4_0"}
BY_LLAMA_CPP = {"Q4_K": "LLAMA_FTYPE_MOSTLY_Q4_K_S", "Q5_0": "LLAMA_FTYPE_MOSTLY_Q5_0", "Q6_K": "LLAMA_FTYPE_MOSTLY_Q6_K"}


def scratch_folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "quire" / "bench-models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def typed_file(quire: str, model: str, label: str) -> str:
    """`model` with its matrices as `label`; made anew when `model` is younger."""
    source = Path(model)
    wanted = scratch_folder() / f"{source.stem}-{label.lower()}.gguf"
    if wanted.exists() and wanted.stat().st_mtime >= source.stat().st_mtime:
        return str(wanted)
    print(f"writing {wanted}", file=sys.stderr)
    unfinished = wanted.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    if label in BY_QUIRE:
        command = [quire, "quantize", model, str(unfinished), "--type", BY_QUIRE[label], "-q"]
        subprocess.run(command, check=True)
    else:
        _llama_cpp_quantize(typed_file(quire, model, "F16"), str(unfinished), BY_LLAMA_CPP[label])
    unfinished.rename(wanted)
    return str(wanted)


def _llama_cpp_quantize(source: str, target: str, kind: str) -> None:
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, kind)
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), params):
        raise RuntimeError(f"llama.cpp could not write {target}")
