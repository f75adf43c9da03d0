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
    """O += P V: P in registers, V MN-major in shared memory."""
    swizzle = config.value_swizzle
    v = SmemOperand(config.qkv_dtype, config.padded_ov_depth, config.BN, swizzle, mn_major=True)
    return WgmmaPlan(config.qkv_dtype, padded_columns(config.ov_depth), config.BN, v)
