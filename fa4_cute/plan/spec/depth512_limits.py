"""What the CTA-pair kernel cannot run, and why: one sentence per refusal."""

from __future__ import annotations

from typing import Final

from ..config.depth512_config import Depth512Config
from ..facts.hardware import SMEM_CAPACITY, TMA_ALIGN, TMEM_COLUMNS, SwizzleMode, align_up

MAX_DEPTH: Final = 512
MIN_BN: Final = 32
MIN_KV_STAGES: Final = 2


def supported(config: Depth512Config) -> bool:
    """Return whether the kernel can run ``config``."""
    return unsupported_reason(config) is None


def unsupported_reason(config: Depth512Config) -> str | None:
    """Return why the kernel cannot run ``config``, with the nearest choice it can, or None."""
    unit = TMA_ALIGN // config.qkv_dtype_size
    if config.depth > MAX_DEPTH:
        return f"depth={config.depth} exceeds 512; nearest supported choice: depth=512"
    if config.depth % unit:
        nearest = align_up(config.depth, unit)
        return (
            f"depth={config.depth} makes rows of {config.depth * config.qkv_dtype_size} bytes, but "
            f"TMA needs multiples of 16 bytes; nearest supported choice: depth={nearest}"
        )
    span = config.swizzle_mode.bytes // config.qkv_dtype_size
    exceeds = span > config.BK1 and not config.p_in_tmem
    if config.swizzle_mode is SwizzleMode.NONE or exceeds:
        swizzle = config.qkv_dtype.default_swizzle
        return (
            f"swizzle_mode={config.swizzle_mode.name} makes column chunks of {span} elements, "
            f"which the {config.BK1}-key stages of P cannot use; nearest supported choice: "
            f"swizzle_mode={swizzle.name}"
        )
    return _copies_problem(config) or _budget_problem(config)


def _copies_problem(config: Depth512Config) -> str | None:
    copies = config.row_copies
    if copies == 1:
        return None
    found = config.heads_problem()
    if config.split_o or not config.p_in_tmem:
        found = "P in Tensor Memory alone has lanes of its own"
    if found is None:
        return None
    return f"row_copies={copies}: {found}; nearest supported choice: row_copies=1"


def _budget_problem(config: Depth512Config) -> str | None:
    needed = max(MIN_KV_STAGES, config.num_qk_stages)
    checks = (
        (config.BN >= MIN_BN, f"BN={config.BN} keys per tile, and it needs {MIN_BN}"),
        (config.num_kv_stages >= needed, f"{config.num_kv_stages} ring slots of {needed}"),
        (config.tmem_used <= TMEM_COLUMNS, f"{config.tmem_used} of {TMEM_COLUMNS} TMEM columns"),
        (config.smem_used <= SMEM_CAPACITY, f"{config.smem_used} of {SMEM_CAPACITY} bytes"),
    )
    failed = [text for fits, text in checks if not fits]
    return f"the plan has {failed[0]}; nearest supported choice: page_size=0" if failed else None
