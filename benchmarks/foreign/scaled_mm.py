"""``torch._scaled_mm`` for block-scaled operands in float64; torch itself has it on GPUs only.

Operands: FP8, or FP4 (e2m1) packed two to a byte, low nibble first.  Scale factors come in the
layout that tensor cores read (cuBLAS, "1D block scaling factors layout"): tiles of 128 rows by 4
blocks of k, a tile is 512 bytes, element (row, block) at ``row % 32 * 16 + row // 32 * 4 + block``.
"""

from __future__ import annotations

from typing import Any

import torch

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]).double()
TILE_ROWS, TILE_BLOCKS = 128, 4


def dequantised(values: torch.Tensor) -> torch.Tensor:
    """A (rows, k) FP8 or packed FP4 matrix as float64."""
    if values.dtype != torch.float4_e2m1fn_x2:
        return values.double()
    packed = values.contiguous().view(torch.uint8).long()
    return torch.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).flatten(-2)


def block_scales(scales: torch.Tensor, rows: int, blocks: int) -> torch.Tensor:
    """Scale factors in tile order as a (rows, blocks) float64 matrix."""
    row = torch.arange(rows)[:, None]
    block = torch.arange(blocks)[None, :]
    tiles_across = -(-blocks // TILE_BLOCKS)
    tile = row // TILE_ROWS * tiles_across + block // TILE_BLOCKS
    inner = row % 32 * 16 + row % TILE_ROWS // 32 * 4 + block % TILE_BLOCKS
    return scales.flatten().double()[tile * TILE_ROWS * TILE_BLOCKS + inner]


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    out_dtype: torch.dtype,
    **_options: Any,
) -> torch.Tensor:
    """(scaled a) @ (scaled b) for a (m, k) and b (k, n), computed in float64."""
    left, right = dequantised(a), dequantised(b.transpose(0, 1))
    block = 16 if scale_a.dtype == torch.float8_e4m3fn else 32
    blocks = left.shape[1] // block
    for operand, scales in ((left, scale_a), (right, scale_b)):
        factors = block_scales(scales, operand.shape[0], blocks)
        operand.mul_(factors.repeat_interleave(block, 1))
    return (left @ right.T).to(out_dtype)
