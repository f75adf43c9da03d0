"""The two MMAs of the 2Q/1Q kernel, from its configuration (section 4.6)."""

from __future__ import annotations

from .config import FA4Config
from .umma import MmaPlan, SmemOperand, ss_plan, ts_plan


def q_operand(config: FA4Config) -> SmemOperand:
    """One Q tile per CTA: 128 rows, K-major, depth parts one after the other."""
    rows = config.MMA_M // config.cta_group()
    return SmemOperand(config.qkv_dtype, rows, config.padded_qk_depth, config.swizzle_mode)


def k_operand(config: FA4Config) -> SmemOperand:
    """One K tile: keys of this CTA, K-major."""
    rows = config.k_rows_per_cta()
    return SmemOperand(config.qkv_dtype, rows, config.padded_qk_depth, config.swizzle_mode)


def v_operand(config: FA4Config) -> SmemOperand:
    """One V tile: this CTA's columns of all keys, MN-major."""
    return SmemOperand(
        config.qkv_dtype, config.v_cols_per_cta(), config.BN, config.swizzle_mode, mn_major=True
    )


def qk_plan(config: FA4Config) -> MmaPlan:
    """S = Q K': both operands in shared memory, in ``num_qk_stages`` depth parts."""
    return ss_plan(
        q_operand(config),
        k_operand(config),
        k=config.qk_depth,
        num_stages=config.num_qk_stages,
        cta_group=config.cta_group(),
    )


def pv_plan(config: FA4Config) -> MmaPlan:
    """O += P V: P in Tensor Memory, V MN-major, P handed over in ``num_pv_stages`` parts."""
    return ts_plan(
        v_operand(config),
        m=config.MMA_M,
        k=config.BN,
        num_stages=config.num_pv_stages,
        cta_group=config.cta_group(),
    )
