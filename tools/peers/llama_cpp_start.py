"""Prints the milliseconds llama.cpp takes to a prompt's first token in this fresh process.

    python llama_cpp_start.py FILE.gguf THREADS flash|plain PROMPT

The clock starts when Python and the library are already loaded, so that only llama.cpp's own work counts:
load the model, make a context, tokenize, read the prompt, choose the likeliest token, turn it into text.
"""

import ctypes
import sys
import time

import llama_cpp
import numpy as np


def first_token(model_path: bytes, threads: int, flash: bool, prompt: bytes) -> bytes:
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(model_path, llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = 2048
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = 1 if flash else 0
    context = llama_cpp.llama_init_from_model(model, params)
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    tokens = (llama_cpp.llama_token * 512)()
    count = llama_cpp.llama_tokenize(vocabulary, prompt, len(prompt), tokens, 512, True, True)
    if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, count)):
        raise RuntimeError("llama_decode failed")
    logits = llama_cpp.llama_get_logits_ith(context, -1)
    likeliest = int(np.ctypeslib.as_array(logits, (llama_cpp.llama_vocab_n_tokens(vocabulary),)).argmax())
    piece = ctypes.create_string_buffer(64)
    length = llama_cpp.llama_token_to_piece(vocabulary, likeliest, piece, 64, 0, True)
    return piece.raw[:length]


@llama_cpp.llama_log_callback
def _ignore(level, text, user_data):
    pass


if __name__ == "__main__":
    file, threads, variant, prompt = sys.argv[1:]
    llama_cpp.llama_log_set(_ignore, ctypes.c_void_p())
    begin = time.perf_counter()
    piece = first_token(file.encode(), int(threads), variant == "flash", prompt.encode())
    print((time.perf_counter() - begin) * 1000, repr(piece))
