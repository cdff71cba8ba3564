"""Makes tests/data/dequant/: stored blocks of every GGUF weight type and the float32 they mean.

    $(tools/oracle/setup.sh) tools/oracle/make_dequant_goldens.py

<type>.blocks   raw bytes as in a GGUF file
<type>.f32      float32, one per weight: bit for bit what dequantization must give

Bytes are random; the f16 scales are any finite value: subnormal, zero of both signs, the largest.
The truth is the gguf package's, whose float32 operations are in ggml's order.
"""

from pathlib import Path

import gguf
import numpy as np

DEQUANT = Path(__file__).resolve().parents[2] / "tests" / "data" / "dequant"
QuantType = gguf.GGMLQuantizationType
NUM_BLOCKS = 16
# Byte offsets of the f16 scales in a block.
SCALES = {
    QuantType.Q8_0: [0],
    QuantType.Q4_0: [0],
    QuantType.Q4_1: [0, 2],
    QuantType.Q5_0: [0],
    QuantType.Q5_1: [0, 2],
    QuantType.Q4_K: [0, 2],
    QuantType.Q5_K: [0, 2],
    QuantType.Q6_K: [208],
}
# Types added later, drawn last so that the earlier files stay as they are.
LATER_SCALES = {QuantType.IQ4_NL: [0], QuantType.Q2_K: [80, 82], QuantType.Q3_K: [108]}
EDGE_HALVES = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x0400, 0x3C00], np.uint16)


def main() -> None:
    DEQUANT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    for quant_type, offsets in SCALES.items():
        save(quant_type, random_blocks(rng, gguf.GGML_QUANT_SIZES[quant_type][1], offsets))
    save(QuantType.F16, finite_halves(rng, 512).view(np.uint8))
    save(QuantType.BF16, finite_bfloats(rng, 512).view(np.uint8))
    for quant_type, offsets in LATER_SCALES.items():
        save(quant_type, random_blocks(rng, gguf.GGML_QUANT_SIZES[quant_type][1], offsets))


def random_blocks(rng, block_bytes: int, scale_offsets: list[int]) -> np.ndarray:
    """uint8 [blocks, bytes]: edge scales in the first blocks, random ones in the rest."""
    blocks = rng.integers(0, 256, (NUM_BLOCKS, block_bytes)).astype(np.uint8)
    for nth, offset in enumerate(scale_offsets):
        scales = finite_halves(rng, NUM_BLOCKS)
        scales[: len(EDGE_HALVES)] = np.roll(EDGE_HALVES, nth)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks


def finite_halves(rng, count: int) -> np.ndarray:
    halves = rng.integers(0, 2**16, count).astype(np.uint16)
    halves[: len(EDGE_HALVES)] = EDGE_HALVES[:count]
    return np.where(halves & 0x7C00 == 0x7C00, halves & 0xBFFF, halves).astype(np.uint16)


def finite_bfloats(rng, count: int) -> np.ndarray:
    bits = rng.integers(0, 2**16, count).astype(np.uint16)
    bits[:6] = [0x0000, 0x8000, 0x0001, 0x7F7F, 0xFF7F, 0x3F80]
    return np.where(bits & 0x7F80 == 0x7F80, bits & 0xBFFF, bits).astype(np.uint16)


def save(quant_type: QuantType, blocks: np.ndarray) -> None:
    weights = gguf.dequantize(blocks, quant_type).astype(np.float32)
    if not np.isfinite(weights).all():
        raise ValueError(f"{quant_type.name}: a weight is not finite")
    name = quant_type.name.lower()
    blocks.tofile(DEQUANT / f"{name}.blocks")
    weights.tofile(DEQUANT / f"{name}.f32")
    print(f"{name}: {blocks.nbytes} bytes, {weights.size} weights")


if __name__ == "__main__":
    main()
