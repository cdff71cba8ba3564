"""Makes tests/data/quantize/: floats, and the blocks that ggml's reference quantizers make of them.

    ./dev oracle make_quantize_goldens

input.f32      float32 rows, [rows of 64]: ordinary weights, and what quantizers stumble over
<type>.blocks  the bytes that a GGUF file stores for them

The truth is the gguf package's, which its authors hold equal to ggml's C code.
"""

from pathlib import Path

import gguf
import numpy as np

QUANTIZE = Path(__file__).resolve().parents[2] / "tests" / "data" / "quantize"
QuantType = gguf.GGMLQuantizationType
COLUMNS = 64


def main() -> None:
    QUANTIZE.mkdir(parents=True, exist_ok=True)
    rows = np.concatenate([ordinary(), awkward()]).astype(np.float32)
    rows.tofile(QUANTIZE / "input.f32")
    for quant_type in (QuantType.F16, QuantType.BF16, QuantType.Q8_0, QuantType.Q4_0, QuantType.Q4_1):
        blocks = gguf.quantize(rows, quant_type)
        blocks.tofile(QUANTIZE / f"{quant_type.name.lower()}.blocks")
        print(f"{quant_type.name}: {blocks.nbytes} bytes")


def ordinary() -> np.ndarray:
    rng = np.random.default_rng(30)
    return np.concatenate([rng.normal(0, scale, (16, COLUMNS)) for scale in (0.02, 1.0, 50.0)])


def awkward() -> np.ndarray:
    ramp = np.arange(COLUMNS) - COLUMNS / 2
    return np.stack(
        [
            np.zeros(COLUMNS),
            -np.zeros(COLUMNS),
            np.full(COLUMNS, 3.5),
            np.full(COLUMNS, -3.5),
            ramp,
            -ramp,
            ramp / 2,  # halves: where rounding shows its manner
            np.where(ramp == 0, 1e-5, 0),
            np.where(ramp == 0, -60000, 1e-3),
            ramp * 1e-7,  # scales that are subnormal in f16
            ramp * 1e-12,
            np.abs(ramp) + 100,  # far from zero
            np.tile([1.0, -1.0], COLUMNS // 2),  # two numbers as far from zero
        ]
    )


if __name__ == "__main__":
    main()
