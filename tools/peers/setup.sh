#!/usr/bin/env bash
# Makes the environment that runs Quire's speed peers, outside the repository:
#   ${XDG_CACHE_HOME:-~/.cache}/quire/peer-venv
# Prints its python on stdout. Runs again at no cost.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv="${XDG_CACHE_HOME:-$HOME/.cache}/quire/peer-venv"

[[ -x "$venv/bin/python" ]] || { mkdir -p "$(dirname "$venv")" && python3 -m venv "$venv"; }
if ! cmp -s "$here/requirements.txt" "$venv/requirements.installed"; then
  echo "peers: installing llama-cpp-python (built from source, about 20 minutes on two cores) and openvino-genai" >&2
  # LLAVA_BUILD: no vision tower, a third less to compile.
  CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-2}" CMAKE_ARGS="-DLLAVA_BUILD=OFF" \
    "$venv/bin/python" -m pip install --quiet -r "$here/requirements.txt" >&2
  cp "$here/requirements.txt" "$venv/requirements.installed"
fi
echo "$venv/bin/python"
