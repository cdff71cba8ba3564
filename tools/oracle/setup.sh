#!/usr/bin/env bash
# Makes the oracle's Python environment, outside the repository:
#   ${XDG_CACHE_HOME:-~/.cache}/quire/oracle-venv   (about 6 GB, most of it torch's CUDA libraries,
#   which its only wheel on the package index cannot be imported without)
#
#   tools/oracle/setup.sh          torch, transformers, gguf, tokenizers: all that makes goldens
#   tools/oracle/setup.sh --peer   also llama-cpp-python, for compare_quantized.py (long: built from source)
#
# Prints the environment's python on stdout. Runs again at no cost.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv="${XDG_CACHE_HOME:-$HOME/.cache}/quire/oracle-venv"

install_requirements() {
  local file=$1 stamp
  stamp="$venv/$(basename "$1").installed"
  if cmp -s "$file" "$stamp"; then return; fi
  echo "oracle: installing $(basename "$file") into $venv" >&2
  # LLAVA_BUILD concerns llama-cpp-python alone: no vision tower, a third less to compile.
  CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-2}" CMAKE_ARGS="-DLLAVA_BUILD=OFF" \
    nice "$venv/bin/python" -m pip install --quiet -r "$file" >&2
  cp "$file" "$stamp"
}

if [[ ! -x "$venv/bin/python" ]]; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
fi
install_requirements "$here/requirements.txt"
if [[ "${1:-}" == --peer ]]; then
  install_requirements "$here/requirements-peer.txt"
fi
echo "$venv/bin/python"
