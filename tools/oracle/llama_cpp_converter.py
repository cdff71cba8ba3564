"""llama.cpp's own convert_hf_to_gguf.py, from the source package of llama-cpp-python.

It is fetched once into the cache beside the environment and run as it is, with one look-up
replaced: it tells pre-tokenizers apart by a hash that no tiny tokenizer has. The tiny tokenizers
are byte-level, so its paths through SentencePiece end where there is no tokenizer.model.
"""

import importlib
import os
import subprocess
import sys
import tarfile
import types
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "quire" / "llama-cpp-source"
GGUF_NAMES = {"gpt2": "gpt-2"}  # of pre-tokenizers, where they differ


def _source() -> Path:
    if not CACHE.exists():
        CACHE.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps",
                        "--dest", str(CACHE), PACKAGE], check=True)
        archive = next(CACHE.glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(CACHE, filter="data")
        archive.unlink()
    return next(CACHE.glob("*/vendor/llama.cpp"))


# Before anyone imports gguf: the converter needs the one that it comes with.
sys.path[:0] = [str(_source() / "gguf-py"), str(_source())]


def convert(folder: Path, target: Path, pre: str) -> None:
    """Writes `folder` as Q8_0; matrices that Q8_0 cannot hold become F16, vectors F32."""
    converter = _module()
    _replace_vocabulary_lookups(pre)
    arguments = sys.argv
    sys.argv = ["convert_hf_to_gguf.py", str(folder), "--outfile", str(target), "--outtype", "q8_0"]
    try:
        converter.main()
    finally:
        sys.argv = arguments


def _module():
    if "sentencepiece" not in sys.modules:
        absent = types.ModuleType("sentencepiece")
        absent.SentencePieceProcessor = None
        sys.modules["sentencepiece"] = absent
    return importlib.import_module("convert_hf_to_gguf")


def _replace_vocabulary_lookups(pre: str) -> None:
    base = importlib.import_module("conversion.base")
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: GGUF_NAMES.get(pre, pre)
    # Gemma's and Phi's classes know SentencePiece only.
    for module, model in (("conversion.gemma", "Gemma2Model"), ("conversion.phi", "Phi3MiniModel")):
        getattr(importlib.import_module(module), model).set_vocab = base.TextModel._set_vocab_gpt2
