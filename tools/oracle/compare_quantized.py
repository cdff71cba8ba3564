"""What `quire quantize` writes, read by llama.cpp and by Quire itself.

    ./dev oracle compare_quantized MODEL TEXT [--quire build/quire] [--types f16,q8_0,q4_0,q4_1]

MODEL is a GGUF file or a Hugging Face folder. For each type the model is quantized into a temporary
folder, and the text's tokens, at most --tokens of them, are run through llama.cpp and through Quire.
Prints one JSON document, a list with for each type:

    ids_equal      whether llama.cpp's tokenizer, from the file, gives Quire's ids
    template_kept  whether llama.cpp finds the chat template
    llama_cpp{kl_mean,kl_max,top1}     KL(Quire's f32 logits of the file || llama.cpp's)
    int8{kl_mean,kl_max,top1}          the same for Quire's int8 activations
    loss{kl_mean,kl_max,top1}          KL(Quire's f32 logits of MODEL || of the file): what the type costs

llama.cpp computes with int8 activations where the weights are quantized, so its KL is that of
rounding, not zero. Exit status 5 if ids differ, a template is lost, or llama.cpp's mean KL exceeds
--max-kl.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--quire", default="build/quire")
    parser.add_argument("--types", default="f16,q8_0,q4_0,q4_1")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--max-kl", type=float, default=0.02)
    args = parser.parse_args()

    llama_cpp.llama_backend_init()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text(first_tokens(args.quire, args.model, args.text, args.tokens))
        source, _ = quire_logits(args.quire, args.model, text, folder, "f32")
        for quant_type in args.types.split(","):
            results.append(compare(args.quire, args.model, text, folder, quant_type, source))
    print(json.dumps(results, indent=1))
    if any(not r["ids_equal"] or not r["template_kept"] or r["llama_cpp"]["kl_mean"] > args.max_kl for r in results):
        sys.exit(5)


def compare(quire: str, model: str, text: Path, folder: str, quant_type: str, source: np.ndarray) -> dict:
    file = Path(folder) / f"{quant_type}.gguf"
    run(quire, "quantize", model, file, "--type", quant_type, "-q", "--force")
    exact, ids = quire_logits(quire, file, text, folder, "f32")
    int8, _ = quire_logits(quire, file, text, folder, "int8")
    peer, peer_ids, template = llama_cpp_logits(file, text.read_bytes(), ids)
    has_template = json.loads(run(quire, "info", model, "--json"))["template"] is not None
    return {
        "type": quant_type,
        "bytes": file.stat().st_size,
        "tokens": len(ids),
        "ids_equal": peer_ids == ids,
        "template_kept": template == has_template,
        "llama_cpp": divergence(exact, peer),
        "int8": divergence(exact, int8),
        "loss": divergence(source, exact),
    }


def first_tokens(quire: str, model: str, text: Path, count: int) -> str:
    """As much of the text as `count` tokens cover."""
    counted = json.loads(run(quire, "tokens", model, "--raw", "--no-special", "-f", text, "--json"))
    start = "".join(counted["pieces"][:count])
    content = text.read_text()
    return start if content.startswith(start) else content[: 3 * count]


def quire_logits(quire: str, model, text: Path, folder: str, act: str) -> tuple[np.ndarray, list[int]]:
    logits = Path(folder) / "logits.npy"
    scored = json.loads(
        run(quire, "score", model, "-f", text, "--act", act, "--kv", "f32", "--logits", logits, "--json")
    )
    return np.load(logits).astype(np.float64), scored["ids"]


def llama_cpp_logits(file: Path, text: bytes, ids: list[int]) -> tuple[np.ndarray, list[int], bool]:
    """llama.cpp's logits for Quire's ids, its own ids for the text, whether it has a template."""
    params = llama_cpp.llama_model_default_params()
    model = llama_cpp.llama_model_load_from_file(str(file).encode(), params)
    if not model:
        sys.exit(f"llama.cpp does not load {file}")
    vocab = llama_cpp.llama_model_get_vocab(model)
    own = (llama_cpp.llama_token * (len(text) + 8))()
    count = llama_cpp.llama_tokenize(vocab, text, len(text), own, len(own), True, True)
    template = llama_cpp.llama_model_chat_template(model, None) is not None

    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = max(len(ids), 32)
    options.n_threads = options.n_threads_batch = 2
    options.flash_attn_type = 0
    options.type_k = options.type_v = 0  # f32
    context = llama_cpp.llama_init_from_model(model, options)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, True
        batch.seq_id[i][0] = 0
    batch.n_tokens = len(ids)
    if llama_cpp.llama_decode(context, batch) != 0:
        sys.exit(f"llama.cpp does not run {file}")
    num_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
    pointer = llama_cpp.llama_get_logits(context)
    logits = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (len(ids), num_vocab))
    logits = logits.astype(np.float64)
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return logits, list(own[:count]), template


def divergence(truth: np.ndarray, got: np.ndarray) -> dict:
    """KL of each row, in nats, and the share of equal argmaxes."""
    log_p, log_q = log_softmax(truth), log_softmax(got)
    kl = (np.exp(log_p) * (log_p - log_q)).sum(axis=1)
    return {
        "kl_mean": round(float(kl.mean()), 6),
        "kl_max": round(float(kl.max()), 6),
        "top1": round(float((truth.argmax(axis=1) == got.argmax(axis=1)).mean()), 4),
    }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def run(*command) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
