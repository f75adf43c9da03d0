"""The two MMAs of the head-dim 256/512 kernel (6.1, 6.5); P of 256 is read from Tensor Memory."""

from __future__ import annotations

from dataclasses import replace

from ..config.depth512_config import Depth512Config
from ..facts.umma import MmaPlan, SmemOperand, ss_plan, ts_plan


def qk_stage_plan(config: Depth512Config, stage: int) -> MmaPlan:
    """S (+)= Q[:, part] K[:, part]': one depth part, without its padding columns.

    Raises:
        ValueError: when the configuration has no such part.
    """
    if not 0 <= stage < config.num_qk_stages:
        raise ValueError(f"stage={stage}: the plan has {config.num_qk_stages} depth parts")
    q = SmemOperand(config.qkv_dtype, config.BM, config.BK0, config.swizzle_mode)
    k = replace(q, mn=config.k_rows_per_cta())
    depth = min(config.BK0, config.depth - stage * config.BK0)
    return ss_plan(q, k, k=depth, cta_group=config.cta_group())


def pv_block_plan(config: Depth512Config, key_block: int = 0) -> MmaPlan:
    """O_part += P[:, half] V[half, part]: one key half; the same for O_lo and O_hi.

    Halves differ where rows have copies: each has the keys of some of them.
    """
    p = SmemOperand(config.qkv_dtype, config.BM, config.BK1, config.swizzle_mode)
    v = replace(p, mn=config.v_cols_per_cta(), mn_major=True)
    k, pair = config.BK1, config.cta_group()
    if config.p_in_tmem:
        copies = config.row_copies
        each = max(copies // config.num_pv_stages, 1)
        return ts_plan(
            v, m=config.MMA_M, k=k, num_stages=1, quarters=(), cta_group=pair, row_copies=copies,
            copies_taken=range(key_block * each, (key_block + 1) * each) if copies > 1 else None,
        )  # fmt: skip
    return ss_plan(p, v, k=k, cta_group=pair)
