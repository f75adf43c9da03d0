"""The two products of the Hopper kernel, from its configuration."""

from __future__ import annotations

from ..config.sm90_config import SM90Config
from ..facts.hardware import align_up
from ..facts.umma import SmemOperand
from ..facts.wgmma import WGMMA_ROWS, WgmmaPlan, padded_columns


def qk_plan(config: SM90Config) -> WgmmaPlan:
    """S = Q K': 64 rows of Q and the keys of a tile, both K-major in shared memory."""
    dtype, depth, swizzle = config.qkv_dtype, config.padded_depth, config.swizzle_mode
    q = SmemOperand(dtype, WGMMA_ROWS, depth, swizzle)
    k = SmemOperand(dtype, config.BN, depth, swizzle)
    return WgmmaPlan(dtype, config.BN, align_up(config.depth, dtype.mma_k), k, q)


def pv_plan(config: SM90Config) -> WgmmaPlan:
    """O += P V: P in registers, V in shared memory, MN-major unless it was transposed."""
    in_rows = config.transposes_values
    swizzle = config.transposed_swizzle if in_rows else config.value_swizzle
    columns = config.padded_ov_depth
    v = SmemOperand(config.qkv_dtype, columns, config.BN, swizzle, mn_major=not in_rows)
    return WgmmaPlan(config.qkv_dtype, padded_columns(config.ov_depth), config.BN, v)
