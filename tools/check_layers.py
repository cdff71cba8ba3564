#!/usr/bin/env python3
"""Proves that includes point downward only.

Usage: tools/check_layers.py [SOURCE_DIR]

Each layer of src/ may include itself and the layers listed for it here; the command line may use the
engine's public headers only. Prints one line for every include that breaks the rule and exits with 1.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "formats": {"base"},
    "kernels": {"base"},
    "context": {"base", "formats"},
    "model": {"base", "formats", "kernels"},
    "kv": {"base", "kernels"},
    "plan": {"base", "formats", "kernels", "model", "kv"},
    "engine": {"base", "formats", "kernels", "context", "model", "kv"},
    "loadtest": {"base", "formats"},
    "server": {"base", "formats", "context", "engine"},
    "cli": {"base", "engine", "context", "formats", "plan", "server", "loadtest"},
}
# What the engine's public headers hand out besides their own types.
CLI_MAY_ALSO = {"model/config.h", "model/weights.h", "kv/kv_store.h", "kv/codec.h", "kv/geometry.h",
                "kernels/activations.h", "model/profile.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def faults(source: pathlib.Path):
    for path in sorted(source.rglob("*")):
        if path.suffix not in {".h", ".cc", ".inl"}:
            continue
        layer = path.relative_to(source).parts[0]
        if layer not in ALLOWED:
            yield f"{path}: folder {layer} is no layer; add it to tools/check_layers.py"
            continue
        for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
            other = include.split("/")[0]
            if other == layer or other in ALLOWED[layer]:
                continue
            if layer == "cli" and include in CLI_MAY_ALSO:
                continue
            yield f"{path}: {layer} may not include {include}"


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    found = list(faults(root / "src"))
    print("\n".join(found) if found else "layers: every include points downward")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
