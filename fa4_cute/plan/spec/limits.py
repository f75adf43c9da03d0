"""What the 2Q/1Q kernel cannot run, and why: one rule per function, one sentence per refusal.

Rules of ``docs/sources.md`` section 1 with deliberate differences. The single-CTA
variants take every depth whose rows are a multiple of 16 bytes: the lower limit of 64 there belongs
to its dispatcher, and TMA fills the padding columns with zeros. No plan has more than 64 mbarriers,
because one warp initialises them in two waves: ``kv_budget`` sees to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ..config.config import FA4Config
from ..config.copies import KEYS_OF_COPIES
from ..config.operand_config import QKV_DTYPES
from ..config.reduce_scatter import MAX_CLUSTER
from ..facts.dtypes import DType
from ..facts.hardware import SMEM_CAPACITY, TMA_ALIGN, TMEM_COLUMNS, SwizzleMode, align_up
from ..memory.smem_layout import AttentionSMemLayout

MIN_BN: Final = 64
MIN_KV_STAGES: Final = 2
PAIR_DEPTHS: Final = (64, 128)
"""A pair serves 64 < depth <= 128, as the source's does; with rope columns V may be narrower."""
PAIR_N_STEP: Final = 32
"""N of an MMA of two CTAs with M = 256 (PTX ISA, "tcgen05.mma", shapes of ``cta_group::2``)."""
MAX_1Q_DEPTH: Final = 256


def unsupported_reason(config: FA4Config) -> str | None:
    """Return why the kernel cannot run ``config``, with the nearest choice it can, or None."""
    problem = _first_problem(config)
    if problem is None:
        return None
    nearest = next((text for text, other in _variants(config) if supported(other)), None)
    return f"{problem}; nearest supported choice: {nearest}" if nearest else problem


def supported(config: FA4Config) -> bool:
    """Return whether the kernel can run ``config``."""
    return _first_problem(config) is None


def _first_problem(config: FA4Config) -> str | None:
    for rule in RULES:
        problem = rule(config)
        if problem:
            return problem
    return None


def _operand_problem(config: FA4Config) -> str | None:
    for name, depth in (("qk_depth", config.qk_depth), ("ov_depth", config.ov_depth)):
        row = depth * config.qkv_dtype_size
        if row % TMA_ALIGN:
            return f"{name}={depth} makes rows of {row} bytes, but TMA needs multiples of 16 bytes"
    rope = config.rope_depth()
    if rope < 0:
        return (
            f"qk_depth={config.qk_depth} is smaller than ov_depth={config.ov_depth} after padding"
        )
    if rope and not config.rope_dtype.is_valid:
        return (
            f"qk_depth={config.qk_depth} exceeds ov_depth={config.ov_depth} after padding, "
            f"but rope_dtype is 'invalid'"
        )
    if config.shared_rope and not rope:
        return f"shared_rope=True with ov_depth={config.ov_depth}: there are no rope columns"
    if rope and not config.is_mla:
        return f"is_mla=False with {rope} rope columns: they are not staged with the others"
    if config.rope_apart and config.ov_depth != config.padded_ov_depth:
        return (
            f"ov_depth={config.ov_depth}: rope columns that are tensors of their own begin at "
            f"a whole chunk of {config.swizzle_elems} columns"
        )
    return None


def _tile_problem(config: FA4Config) -> str | None:
    if config.BN < MIN_BN:
        return (
            f"ov_depth={config.ov_depth} leaves tiles of BN={config.BN} keys with two output "
            f"accumulators in {TMEM_COLUMNS} TMEM columns, and the kernel needs BN >= {MIN_BN} "
            f"(head dims 256 and 512 belong to Depth512Config)"
        )
    if config.tmem_used > TMEM_COLUMNS:
        return f"the plan uses {config.tmem_used} of {TMEM_COLUMNS} TMEM columns"
    return None


def _pair_problem(config: FA4Config) -> str | None:
    if config.num_qo == 1:
        if config.pair_cta:
            return "num_qo=1 has no two-CTA variant (pair_cta=True)"
        if config.qk_depth > MAX_1Q_DEPTH:
            return f"num_qo=1 serves qk_depth <= {MAX_1Q_DEPTH}, not {config.qk_depth}"
    return _pair_depth_problem(config) if config.pair_cta else None


def _pair_depth_problem(config: FA4Config) -> str | None:
    low, high = PAIR_DEPTHS
    if config.rope_depth() and config.ov_depth > high:
        return f"pair_cta=True serves ov_depth <= {high}, not {config.ov_depth}"
    if config.qk_depth <= low or config.ov_depth > high:
        return f"pair_cta=True serves {low} < qk_depth <= {high}, not {config.qk_depth}"
    if config.padded_ov_depth % PAIR_N_STEP:
        return (
            f"swizzle_mode={config.swizzle_mode.name} pads ov_depth={config.ov_depth} to "
            f"{config.padded_ov_depth}: an MMA of two CTAs has columns in steps of {PAIR_N_STEP}"
        )
    if config.value_swizzle is SwizzleMode.NONE:
        return (
            f"ov_depth={config.ov_depth} leaves {config.v_cols_per_cta()} columns of V to a CTA, "
            f"which is no whole chunk of any swizzle"
        )
    return None


def _copies_problem(config: FA4Config) -> str | None:
    copies = config.row_copies
    if copies == 1:
        return None
    if config.num_qo != 1 or config.pair_cta:
        return f"row_copies={copies}: only a single Q tile of one CTA has copies of its rows"
    if config.BN != KEYS_OF_COPIES:
        return f"row_copies={copies}: tiles of {config.BN} keys do not divide among copies"
    heads = config.heads_problem()
    return f"row_copies={copies}: {heads}" if heads else None


def _cluster_problem(config: FA4Config) -> str | None:
    partitions = config.splitk_partitions
    if partitions == 1:
        return None
    if partitions > MAX_CLUSTER:
        return f"splitk_partitions={partitions}: a cluster has at most {MAX_CLUSTER} CTAs"
    if config.num_qo != 1:
        return (
            f"num_qo={config.num_qo}: the CTAs of a cluster share the keys of a single Q tile"
        )
    if config.persistent:
        return "persistent=True: the CTAs of a cluster leave together, after one query tile"
    return None


def _stage_problem(config: FA4Config) -> str | None:
    if config.splitk_partitions == 1:
        return None
    try:
        AttentionSMemLayout(config)
    except ValueError as error:
        return str(error)
    return None


def _budget_problem(config: FA4Config) -> str | None:
    if config.num_kv_stages < MIN_KV_STAGES:
        return (
            f"num_qo={config.num_qo}: shared memory holds {config.num_kv_stages} K/V stage(s) of "
            f"{config.qk_depth}/{config.ov_depth} columns, and the kernel needs {MIN_KV_STAGES}"
        )
    if config.smem_used > SMEM_CAPACITY:
        return f"the plan uses {config.smem_used} of {SMEM_CAPACITY} bytes of shared memory"
    return None


RULES: Final = (
    _operand_problem, _tile_problem, _pair_problem, _copies_problem, _cluster_problem,
    _budget_problem,
    _stage_problem,
)  # fmt: skip
"""Tried in this order; the first that finds something is what is said."""


def _variants(config: FA4Config) -> Iterator[tuple[str, FA4Config]]:
    """Yield alternatives, nearest first: one changed argument, then a smaller problem."""
    if config.row_copies > 1:
        config = replace(config, row_copies=1)
        yield "row_copies=1", config
    if config.pair_cta:
        yield "pair_cta=False", replace(config, pair_cta=False)
    if config.splitk_partitions > MAX_CLUSTER:
        yield f"splitk_partitions={MAX_CLUSTER}", replace(config, splitk_partitions=MAX_CLUSTER)
    also = ""
    if config.shared_rope and config.rope_depth() <= 0:
        also, config = ", shared_rope=False", replace(config, shared_rope=False)
        yield "shared_rope=False", config
    if config.rope_apart:
        whole = replace(config, ov_depth=config.padded_ov_depth)
        for num_qo in (config.num_qo, 1):
            yield f"ov_depth={whole.ov_depth}", whole.with_num_qo(num_qo)
    other = 3 - config.num_qo
    yield f"num_qo={other}", config.with_num_qo(other)
    yield f"num_qo={other}, pair_cta=False", replace(config, num_qo=other, pair_cta=False)
    bf16: dict[str, Any] = {"qkv_dtype": DType.BF16, "swizzle_mode": DType.BF16.default_swizzle}
    plain = replace(config, pair_cta=False)
    unit = TMA_ALIGN // config.qkv_dtype_size
    for depth in (align_up(config.ov_depth, unit), 192):
        text = f"qk_depth=ov_depth={depth}{also}"
        smaller = replace(plain, qk_depth=depth, ov_depth=depth)
        yield text, smaller
        yield f"{text} in bf16", replace(smaller, **bf16)


def sm90_depth_reason(dtype: DType, name: str, depth: int) -> str | None:
    """Return why there is no Hopper kernel for head dim ``depth``, with the nearest choice."""
    if dtype not in QKV_DTYPES:
        known = " or ".join(known.value for known in QKV_DTYPES)
        return (
            f"dtype={dtype.value}: the Hopper kernel takes {known}; nearest supported choice: bf16"
        )
    unit = TMA_ALIGN // dtype.size
    if depth % unit:
        return (
            f"{name}={depth} makes rows of {depth * dtype.size} bytes, but TMA needs multiples of "
            f"16 bytes; nearest supported choice: {name}={align_up(depth, unit)}"
        )
    return None
