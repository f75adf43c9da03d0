"""Inputs: special values, edges of formats, and seeded random bits."""

from __future__ import annotations

import numpy as np

F32_SPECIALS = np.array(
    [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000,
     0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x40490FDB, 0xC0000000, 0x7F7FFFFF, 0xFF7FFFFF,
     0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF, 0x4B000000, 0x33800000],
    np.uint32,
)  # fmt: skip
F16_SPECIALS = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3BFF, 0x3C01,
     0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0xFFFF, 0x1400, 0x6400],
    np.uint16,
)  # fmt: skip
BF16_SPECIALS = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F7F, 0x3F81,
     0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0xFFFF, 0x3B00, 0x4B00],
    np.uint16,
)  # fmt: skip
F64_SPECIALS = np.array(
    [0, 1 << 63, 1, (1 << 63) | 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000,
     0xBFF0000000000000, 0x3FEFFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000,
     0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001],
    np.uint64,
)  # fmt: skip
U32_SPECIALS = np.array(
    [0, 1, 2, 3, 31, 32, 33, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001,
     0xFFFFFFFE, 0xFFFFFFFF, 0x01234567, 0x89ABCDEF],
    np.uint32,
)  # fmt: skip
ALL16 = np.arange(65536, dtype=np.uint16)


def random_bits(count: int, dtype: type, seed: int = 1) -> np.ndarray:
    """Uniform bit patterns."""
    size = np.dtype(dtype).itemsize
    return np.frombuffer(
        np.random.Generator(np.random.PCG64(seed)).bytes(count * size), dtype
    ).copy()


def random_f32(count: int, low: int = 117, high: int = 137, seed: int = 1) -> np.ndarray:
    """Bits of f32 with biased exponents from `low` to `high`, so that sums and products interact."""
    raw = random_bits(count, np.uint32, seed)
    exponent = low + random_bits(count, np.uint32, seed + 1000) % (high - low + 1)
    return (raw & 0x807FFFFF | exponent.astype(np.uint32) << 23).astype(np.uint32)


def f32_edges() -> np.ndarray:
    """For each exponent: mantissas around the ties of 16-bit, 8-bit and tf32 formats."""
    mantissas = set()
    for keep in (2, 3, 7, 10):
        half = 1 << (22 - keep)
        for code in (0, 1, 2, (1 << keep) - 1):
            base = code << (23 - keep)
            mantissas |= {(base + half + d) & 0x7FFFFF for d in (-1, 0, 1)} | {base}
    grid = np.array(sorted(mantissas), np.uint32)
    exponents = np.array([*range(88, 166), 1, 0, 2, 254, 253], np.uint32)
    bits = (exponents[:, None] << 23 | grid).ravel()
    return np.concatenate([F32_SPECIALS, bits, bits[::3] | 0x80000000]).astype(np.uint32)


def pairs(special: np.ndarray, more: np.ndarray) -> list[np.ndarray]:
    """Two operands: every pair of `special`, then consecutive elements of `more`."""
    a, b = np.meshgrid(special, special, indexing="ij")
    return [np.concatenate([a.ravel(), more[::2]]), np.concatenate([b.ravel(), more[1::2]])]


def triples(special: np.ndarray, more: np.ndarray) -> list[np.ndarray]:
    """Three operands: every triple of `special`, then consecutive elements of `more`."""
    grids = np.meshgrid(special, special, special, indexing="ij")
    return [np.concatenate([g.ravel(), more[k::3]]) for k, g in enumerate(grids)]
