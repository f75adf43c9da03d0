"""The two MMAs of the 2Q/1Q kernel, from its configuration (``docs/sources.md`` section 5)."""

from __future__ import annotations

from ..config.config import FA4Config
from ..facts.umma import MmaPlan, SmemOperand, ss_plan, ts_plan


def q_operand(config: FA4Config) -> SmemOperand:
    """One Q tile per CTA without rope: 128 rows, K-major, depth parts one after the other."""
    rows = config.tile_rows
    return SmemOperand(config.qkv_dtype, rows, config.nope_depth(), config.swizzle_mode)


def k_operand(config: FA4Config) -> SmemOperand:
    """One K tile without rope: keys of this CTA, K-major."""
    rows = config.k_rows_per_cta()
    return SmemOperand(config.qkv_dtype, rows, config.nope_depth(), config.swizzle_mode)


def rope_operand(config: FA4Config, rows: int) -> SmemOperand:
    """The rope columns of ``rows`` queries or keys, K-major, in their own element type."""
    return SmemOperand(config.rope_dtype, rows, config.rope_depth(), config.rope_swizzle)


def v_operand(config: FA4Config) -> SmemOperand:
    """One V tile: this CTA's columns of all keys, MN-major."""
    return SmemOperand(
        config.qkv_dtype, config.v_cols_per_cta(), config.BN, config.value_swizzle, mn_major=True
    )


def qk_plan(config: FA4Config) -> MmaPlan:
    """S = Q K' without rope: operands in shared memory, in ``num_qk_stages`` depth parts."""
    return ss_plan(
        q_operand(config),
        k_operand(config),
        k=min(config.qk_depth, config.nope_depth()),
        num_stages=config.num_qk_stages,
        cta_group=config.cta_group(),
    )


def rope_plan(config: FA4Config) -> MmaPlan | None:
    """S += Q K' over the rope columns, which are not staged; None without rope."""
    if not config.rope_depth():
        return None
    return ss_plan(
        rope_operand(config, config.tile_rows),
        rope_operand(config, config.k_rows_per_cta()),
        k=config.qk_depth - config.nope_depth(),
        cta_group=config.cta_group(),
    )


def query_stage_bytes(config: FA4Config) -> int:
    """Bytes of one qk stage of one Q tile, rope columns included."""
    rows = config.tile_rows
    nope = q_operand(config).bytes // config.num_qk_stages
    return nope + rows * config.rope_depth() * config.rope_dtype_size


def pv_plan(config: FA4Config) -> MmaPlan:
    """O += P V: P in Tensor Memory, V MN-major, P handed over in ``num_pv_stages`` parts.

    Copies of the rows have keys of their own, and each the K blocks of these.
    """
    return ts_plan(
        v_operand(config),
        m=config.MMA_M,
        k=config.BN,
        num_stages=config.num_pv_stages,
        quarters=config.tuning.ends if config.num_pv_stages > 1 else (),
        cta_group=config.cta_group(),
        row_copies=config.row_copies,
    )
