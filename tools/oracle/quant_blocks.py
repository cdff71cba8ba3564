"""Stored weights for the GGUF types: quantized where the gguf package can, else random valid blocks.

The package dequantizes K-quants and IQ4_NL but cannot make them. For those a tensor is drawn at random
directly as blocks: any bytes are a valid block, and here the scales are chosen so that the weights
have the asked standard deviation and every sub-block is centred near zero.
"""

import gguf
import numpy as np

QuantType = gguf.GGMLQuantizationType
RANDOM = (QuantType.Q2_K, QuantType.Q3_K, QuantType.Q4_K, QuantType.Q5_K, QuantType.Q6_K, QuantType.IQ4_NL)


def encode(tensor: np.ndarray, quant_type: QuantType) -> np.ndarray:
    """float32 [rows, cols] as the bytes or halves that a GGUF file stores."""
    if quant_type in RANDOM:
        rng = np.random.default_rng(tensor.size + quant_type)
        return random_blocks(quant_type, tensor.shape, float(tensor.std()), rng)
    return gguf.quantize(tensor, quant_type)


def random_blocks(quant_type: QuantType, shape: tuple[int, int], std: float, rng) -> np.ndarray:
    """uint8 [rows, bytes per row] of blocks."""
    rows, cols = shape
    count = rows * cols // gguf.GGML_QUANT_SIZES[quant_type][0]
    if quant_type == QuantType.IQ4_NL:
        # w = d · T[q], T's rms being 68
        d = np.full((count, 1), std / 68, np.float16)
        parts = [d.view(np.uint8), _bytes(rng, count, 16)]
    elif quant_type == QuantType.Q2_K:
        # w = d · s · q − dmin · m, with dmin · m near the middle of d · s · q
        scales = rng.integers(4, 16, (count, 16))
        mins = np.clip(scales + rng.integers(-1, 2, (count, 16)), 0, 15)
        d = std / (10 * 1.118)
        header = np.tile(np.array([d, d * 1.5], np.float16), (count, 1))
        parts = [(scales | mins << 4).astype(np.uint8), _bytes(rng, count, 64), header.view(np.uint8)]
    elif quant_type == QuantType.Q3_K:
        # w = d · s · (q − 4): q uniform in 0..7, s in ±(8..31)
        scales = rng.integers(8, 32, (count, 16)) * rng.choice([-1, 1], (count, 16))
        d = np.full((count, 1), std / (20.7 * 2.35), np.float16)
        parts = [_bytes(rng, count, 32 + 64), pack_q3_k_scales(scales + 32), d.view(np.uint8)]
    elif quant_type == QuantType.Q6_K:
        # w = d · s · (q − 32): q uniform in 0..63, s in ±(48..127)
        scales = (rng.integers(48, 128, (count, 16)) * rng.choice([-1, 1], (count, 16))).astype(np.int8)
        d = np.full((count, 1), std / (88 * 18.5), np.float16)
        parts = [_bytes(rng, count, 128 + 64), scales.view(np.uint8), d.view(np.uint8)]
    else:
        # w = d · s · q − dmin · m, with dmin · m near the middle of d · s · q
        bits = 4 if quant_type == QuantType.Q4_K else 5
        middle = (2**bits - 1) / 2
        scales = rng.integers(16, 64, (count, 8))
        mins = np.clip(scales + rng.integers(-4, 5, (count, 8)), 0, 63)
        d = std / (40 * 2**bits / np.sqrt(12))
        header = np.tile(np.array([d, d * middle], np.float16), (count, 1))
        quants = _bytes(rng, count, 128 if bits == 4 else 32 + 128)
        parts = [header.view(np.uint8), pack_scales_and_mins(scales, mins), quants]
    return np.concatenate(parts, axis=1).reshape(rows, -1)


def pack_q3_k_scales(scales: np.ndarray) -> np.ndarray:
    """Sixteen 6-bit scales a block in 12 bytes, as ggml's dequantize_row_q3_K reads them.

    bytes 0-7   low nibbles: scale[0..7] below, scale[8..15] above
    bytes 8-11  bits 2i and 2i + 1 of byte 8 + j: top bits of scale[4i + j]
    """
    u = scales.astype(np.uint8)
    low = (u[:, :8] & 15) | (u[:, 8:] & 15) << 4
    top = (u >> 4).reshape(-1, 4, 4)
    return np.concatenate([low, sum(top[:, i] << 2 * i for i in range(4)).astype(np.uint8)], axis=1)


def pack_scales_and_mins(scales: np.ndarray, mins: np.ndarray) -> np.ndarray:
    """Eight 6-bit scales and mins a block in 12 bytes, as ggml's get_scale_min_k4 reads them.

    bytes 0-3   scale[0..3], high bits of scale[4..7] on top
    bytes 4-7   min[0..3],   high bits of min[4..7] on top
    bytes 8-11  low nibbles: scale[4..7] below, min[4..7] above
    """
    s, m = scales.astype(np.uint8), mins.astype(np.uint8)
    return np.concatenate(
        [
            s[:, :4] | (s[:, 4:] >> 4 << 6),
            m[:, :4] | (m[:, 4:] >> 4 << 6),
            (s[:, 4:] & 15) | (m[:, 4:] & 15) << 4,
        ],
        axis=1,
    )


def _bytes(rng, count: int, size: int) -> np.ndarray:
    return rng.integers(0, 256, (count, size)).astype(np.uint8)
