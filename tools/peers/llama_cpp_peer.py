"""llama.cpp through its low-level API: prefill, decode and batches at a depth, start, flash on and off.

Each speed() of a case runs it once and gives tokens a second. Prefill takes the logits of the last
token only, decode of every step; both as `quire bench` does. Loading and the tokens before the depth
are not counted.
"""

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import llama_cpp

NAME = "llama.cpp"
CHUNK = 512
MOST_SECONDS = 5
KV_TYPES = {"f16": 1, "q8": 8}  # ggml_type


class Peer:
    def __init__(self, model: str, threads: int):
        _silence()
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(model.encode(), llama_cpp.llama_model_default_params())
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {model}")
        self._path = model
        self._threads = threads

    def close(self) -> None:
        llama_cpp.llama_model_free(self._model)

    def variants(self, case) -> list:
        """How a case may be run; the best counts. A quantized cache of values needs flash attention."""
        return ["flash"] if case.kv != "f16" else ["flash", "plain"]

    def start_ms(self, variant: str, prompt: str) -> float:
        """To the first token, in a process of its own."""
        script = Path(__file__).parent / "llama_cpp_start.py"
        command = [sys.executable, str(script), self._path, str(self._threads), variant, prompt]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return float(done.stdout.split()[0])

    def speed(self, case, variant: str) -> float:
        context = self._context(case, variant)
        try:
            if case.kind == "prefill":
                _feed(context, case.depth)
                return _timed(lambda: _feed(context, case.tokens, case.depth))
            for sequence in range(case.batch):
                _feed(context, case.depth + 1, 0, sequence)
            return _timed(lambda: _decode(context, case))
        finally:
            llama_cpp.llama_free(context)

    def _context(self, case, variant: str):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = (case.depth + case.tokens + 64) * case.batch
        params.n_batch = params.n_ubatch = CHUNK
        params.n_seq_max = case.batch
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = self._threads
        params.flash_attn_type = 1 if variant == "flash" else 0
        params.type_k = params.type_v = KV_TYPES[case.kv]
        context = llama_cpp.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError(f"llama.cpp gives no context for {case.name}")
        return context


def _run(context, rows: list) -> None:
    """rows: (token, position, sequence, whether its logits are wanted)."""
    batch = llama_cpp.llama_batch_init(len(rows), 0, 1)
    for i, (token, position, sequence, wanted) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
        batch.seq_id[i][0] = sequence
    batch.n_tokens = len(rows)
    failed = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_batch_free(batch)
    if failed:
        raise RuntimeError("llama_decode failed")


def _feed(context, count: int, first: int = 0, sequence: int = 0) -> int:
    """Ordinary tokens in chunks; logits of the last one. Returns how many."""
    for start in range(0, count, CHUNK):
        rows = []
        for i in range(start, min(start + CHUNK, count)):
            position = first + i
            rows.append((1000 + position % 20000, position, sequence, i == count - 1))
        _run(context, rows)
    llama_cpp.llama_synchronize(context)
    return count


def _decode(context, case) -> int:
    """Tokens of all sequences, as many as the case says or as there is time for. Returns how many.

    Threads that spin at a barrier for one whose processor is taken come to a standstill on a busy machine.
    """
    deadline = time.perf_counter() + MOST_SECONDS
    for step in range(case.tokens):
        position = case.depth + 1 + step
        _run(context, [(1000 + position % 20000, position, sequence, True) for sequence in range(case.batch)])
        llama_cpp.llama_synchronize(context)
        if time.perf_counter() > deadline:
            break
    return (step + 1) * case.batch


def _timed(work) -> float:
    """Tokens a second of `work`, which returns its tokens."""
    start = time.perf_counter()
    tokens = work()
    return tokens / (time.perf_counter() - start)


@llama_cpp.llama_log_callback
def _ignore(level, text, user_data):
    pass


def _silence() -> None:
    llama_cpp.llama_log_set(_ignore, ctypes.c_void_p())
