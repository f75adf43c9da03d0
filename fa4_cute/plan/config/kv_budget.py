"""How shared memory is cut into K and V slots (``docs/sources.md`` section 1).

Two rules are added to that section, which only plans for fp8 ever meet; such a plan gets fewer
slots than shared memory would hold:

* a ring never needs more mbarriers than one warp initialises (head dim 192, CTA pairs);
* per-token scales take two rings, because slots of K have other readers than slots of V.

A pair holds its scales in two buffers instead, with barriers of their own: each CTA needs the
scales of all keys of a tile, of which that section counts half, and no slot has other readers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from ..barriers.answers import ANSWER_BYTES, NUM_ANSWER_BARRIERS
from ..facts.hardware import (
    MAX_MBARRIERS,
    MBARRIER_BYTES,
    SMEM_CAPACITY,
    TMEM_ADDRESS_BYTES,
    ceil_div,
)
from .tile_config import FA4TileConfig
from .tuning import QUARTERS

EVEN_PARTS: Final = 2
"""Parts in which softmax hands P to the MMA where the key blocks do not divide into quarters."""
_FIXED_BARRIERS: Final = 8
"""C0, C1 (2 each), S_prod (2) and O_prod (2)."""


@dataclass(frozen=True)
class KVBudget:
    """Result of dividing the remaining shared memory into K and V slots (docs/sources.md 1)."""

    use_fused_kv: bool
    num_kv_stages: int
    num_qk_stages: int
    smem_used: int


def num_pv_stages(config: FA4TileConfig) -> int:
    """Return in how many parts softmax hands P to the MMA: what crosses is stored as a whole, and
    so is what each copy of the rows has."""
    if config.crosses or config.row_copies > 1:
        return 1
    divides = config.BN // config.MMA_K % QUARTERS == 0
    return len(config.tuning.parts) if divides else EVEN_PARTS


def kv_budget(config: FA4TileConfig) -> KVBudget:
    """Cut the shared memory left by Q, correction, scales and barriers into K and V slots.

    With an even number of slots two rings are simplest, and K can arrive in QK stages; an odd
    number would leave one slot idle, so K and V then alternate in one ring. A fused plan still
    pays for the second tile's barriers with the provisional QK stages: over-reserving is safe.
    """
    if config.BN == 0 or config.rope_depth() < 0:
        return KVBudget(False, 0, 1, 0)
    qk_stages = _provisional_qk_stages(config)
    used = _fixed_bytes(config, qk_stages)
    barriers = 2 * MBARRIER_BYTES
    slot = config.BN * config.v_cols_per_cta() * config.qkv_dtype_size + barriers
    own_buffers = config.num_own_scale_bufs > 0
    k_row = config.rope_depth() * config.rope_dtype_size
    k_row += 0 if own_buffers else config.scale_dtype_size
    k_extra = config.k_rows_per_cta() * k_row
    remaining = SMEM_CAPACITY - used
    slots = max(0, remaining // (slot + k_extra // 2))
    if slots * slot + ceil_div(slots, 2) * k_extra > remaining:
        slots -= 1
    if config.has_token_scales and not own_buffers:
        slots -= slots % 2
    slots = min(slots, config.tuning.slots or slots)
    slots = min(slots, _most_slots(config, qk_stages, fused=slots % 2 == 1))
    used += slots * slot + ceil_div(slots, 2) * k_extra
    if slots % 2:
        return KVBudget(True, slots, 1, used)
    stages = slots // 2
    extra = (qk_stages - 1) * stages * barriers
    if used + extra < SMEM_CAPACITY:
        return KVBudget(False, stages, qk_stages, used + extra)
    return KVBudget(False, stages, 1, used)


def _most_slots(config: FA4TileConfig, qk_stages: int, *, fused: bool) -> int:
    """Return the slots, in a shared ring or in two, whose barriers one warp can initialise."""
    if fused:
        most = (MAX_MBARRIERS - _fixed_barriers(config, 1)) // 2
        return most - 1 + most % 2
    spare = MAX_MBARRIERS - _fixed_barriers(config, qk_stages)
    return spare // (2 * qk_stages + 2) * 2


def _provisional_qk_stages(config: FA4TileConfig) -> int:
    if config.is_mla:
        return 1
    depth = config.padded_qk_depth
    return gcd(depth // config.swizzle_elems, depth // config.MMA_K)


def _fixed_barriers(config: FA4TileConfig, qk_stages: int) -> int:
    """Barriers that do not depend on the number of slots."""
    barriers = _FIXED_BARRIERS + 2 * num_pv_stages(config)
    barriers += 2 if config.persistent and not config.correction_writes else 0
    barriers += NUM_ANSWER_BARRIERS if config.dynamic else 0
    barriers += 1 if config.splitk_partitions > 1 else 0
    barriers += 2 * config.num_own_scale_bufs
    barriers += 2 if config.crosses else 0
    return barriers + (qk_stages if config.num_qo == 2 else 0)


def _fixed_bytes(config: FA4TileConfig, qk_stages: int) -> int:
    """Bytes that do not depend on the number of slots."""
    barriers = _fixed_barriers(config, qk_stages)
    rope = config.rope_depth()
    rope_size = config.rope_dtype_size if config.rope_dtype.is_valid else config.qkv_dtype_size
    q_row = config.padded_ov_depth * config.qkv_dtype_size + rope * rope_size
    correction = config.correction_floats * 4
    scales = config.num_q_scales + config.num_own_scale_bufs * config.BN
    scale = scales * config.scale_dtype_size
    q_bytes = config.BM * q_row
    told = config.stretch_bytes + (ANSWER_BYTES if config.dynamic else 0) + config.own_copies_bytes
    return TMEM_ADDRESS_BYTES + MBARRIER_BYTES * barriers + q_bytes + scale + correction + told
