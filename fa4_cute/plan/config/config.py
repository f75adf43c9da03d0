"""``FA4Config``: every number of the 2Q/1Q kernel that follows from dtype, depths and variant.

The chain of derivations, in evaluation order (``docs/sources.md`` section 1)::

    tile sizes, TMEM columns (tile_config) -> shared-memory budget -> slots -> fused or split rings
                                           -> QK stages -> barriers; limits: plan.spec.limits
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ..barriers.mbars import FA4MiscMBarsLayout
from ..facts.dtypes import DType
from ..facts.hardware import (
    SMEM_CAPACITY,
    TMEM_COLUMNS,
    UNIT_BYTES,
    WARP_GROUP_THREADS,
    WARP_THREADS,
    align_up,
    ceil_div,
)
from .kv_budget import KVBudget, kv_budget, num_pv_stages
from .reduce_scatter import ReduceScatterPlan
from .tile_config import FA4TileConfig
from .tuned import TUNED
from .tuning import Tuning, tuning_of

SHORT_BOX: Final = 1024
"""Bytes of a box up to which steps of decoding wait for TMA and not for memory: a box of twice as
many takes it no longer (``docs/experiments.md``)."""


@dataclass(frozen=True)
class FA4Config(FA4TileConfig):
    """Tile sizes, TMEM columns, staging and shared-memory use of ``SM100MHA2Q``.

    The inputs and their errors are those of ``FA4TileConfig``.
    """

    # Staging ---------------------------------------------------------------------------------

    @property
    def num_pv_stages(self) -> int:
        """PV stages: parts in which P is handed over."""
        return num_pv_stages(self)

    @cached_property
    def kv_budget(self) -> KVBudget:
        """How the remaining shared memory is cut into K and V slots."""
        return kv_budget(self)

    @property
    def use_fused_kv(self) -> bool:
        """One ring in which K and V alternate (odd number of slots), or two rings."""
        return self.kv_budget.use_fused_kv

    @property
    def num_kv_stages(self) -> int:
        """Slots per ring."""
        return self.kv_budget.num_kv_stages

    @property
    def num_qk_stages(self) -> int:
        """QK stages: depth parts in which K (and Q) arrive."""
        return self.kv_budget.num_qk_stages

    @property
    def smem_used(self) -> int:
        """Dynamic shared memory of the launch; never below the layout's own size."""
        return self.kv_budget.smem_used

    @property
    def BK0(self) -> int:
        """Depth of one QK stage."""
        return self.padded_qk_depth // self.num_qk_stages

    @property
    def BK1(self) -> int:
        """Keys of one V tile; V is never staged."""
        return self.BN

    @property
    def copies_by_lanes(self) -> bool:
        """Whether lanes copy K and V, and not TMA: of few rows over pages that are short boxes.

        Rope columns and scales per token would come by boxes all the same; the CTAs of a cluster
        have few keys each.
        """
        if self.row_copies == 1 or not self.loads_values_apart:
            return False
        units = self.swizzle_mode.bytes // UNIT_BYTES
        return (
            self.padded_qk_depth == self.padded_ov_depth == self.swizzle_elems
            and self.page_size * self.swizzle_mode.bytes <= SHORT_BOX
            # A lane has a unit of the rows of a page (``LanePieces``).
            and self.BN // self.page_size * units == WARP_THREADS
            and not (self.has_token_scales or self.splitk_partitions > 1)
        )

    @cached_property
    def misc_mbars(self) -> FA4MiscMBarsLayout:
        """The barrier block of this configuration."""
        return FA4MiscMBarsLayout(
            num_qk_stages=self.num_qk_stages,
            num_pv_stages=self.num_pv_stages,
            num_kv_stages=self.num_kv_stages,
            use_fused_kv=self.use_fused_kv,
            pair_cta=self.pair_cta,
            num_qo=self.num_qo,
            num_scale_readers=self.num_qo * WARP_GROUP_THREADS if self.has_token_scales else 0,
            persistent=self.persistent,
            num_partitions=self.splitk_partitions,
            num_scale_bufs=self.num_own_scale_bufs,
            crosses=self.crosses,
            correction_writes=self.correction_writes,
            dynamic=self.dynamic,
            values_apart=self.loads_values_apart,
            lane_copies=self.copies_by_lanes,
        )

    @property
    def reduce_scatter(self) -> ReduceScatterPlan:
        """How the CTAs of a cluster put their partitions together.

        Raises:
            ValueError: when no cluster shares the keys.
        """
        rows, dtype = self.rows_of_copy, self.qkv_dtype.output
        return ReduceScatterPlan(self.splitk_partitions, rows, self.ov_depth, dtype)

    # What the roles ask ----------------------------------------------------------------------

    def q_nope_bytes(self) -> int:
        """Bytes of Q without its rope columns."""
        return self.BM * self.padded_ov_depth * self.qkv_dtype_size

    def q_rope_bytes(self) -> int:
        """Bytes of Q's rope columns."""
        return self.BM * self.rope_depth() * self.rope_dtype_size

    def num_rope_buffers(self) -> int:
        """Rope buffers of a fused ring: at most half of its alternating slots hold K."""
        if self.use_fused_kv and self.rope_depth() > 0:
            return ceil_div(self.num_kv_stages, 2)
        return 0

    def num_k_scale_bufs(self) -> int:
        """Buffers for per-token K scales: one per K tile in flight, or two of their own."""
        if not self.scale_dtype.is_valid:
            return 0
        if self.num_own_scale_bufs:
            return self.num_own_scale_bufs
        return ceil_div(self.num_kv_stages, 2) if self.use_fused_kv else self.num_kv_stages

    def describe(self) -> str:
        """Return a few lines with the numbers that decide performance."""
        ring = "fused" if self.use_fused_kv else "split"
        mode = f"{self.num_qo}Q{' pair' if self.pair_cta else ''}"
        mode += f" cluster of {self.splitk_partitions}" if self.splitk_partitions > 1 else ""
        mbars = self.misc_mbars.size
        return "\n".join(
            (
                f"{self.qkv_dtype.value} {self.qk_depth}/{self.ov_depth} {mode}, group "
                f"{self.group}{' (fused into rows)' if self.fuse_gqa else ''}",
                f"tile {self.BM} x {self.BN}, padded depth {self.padded_qk_depth}/"
                f"{self.padded_ov_depth}, swizzle {self.swizzle_mode.bytes} B",
                f"K/V {ring} ring, {self.num_kv_stages} slots, {self.num_qk_stages} QK stage(s) "
                f"of {self.BK0} columns, {mbars} mbarriers",
                f"TMEM S0 {self.TMEM_S0} S1 {self.TMEM_S1} O0 {self.TMEM_O0} O1 {self.TMEM_O1}, "
                f"{self.tmem_used} of {TMEM_COLUMNS} columns",
                f"shared memory {self.smem_used} of {SMEM_CAPACITY} bytes",
            )
        )

    def with_num_qo(self, num_qo: int, row_copies: int = 1) -> FA4Config:
        """Return the same problem with ``num_qo`` Q tiles per CTA, and their free choices, and with
        so many copies of the rows of a single one."""
        if (num_qo, row_copies) == (self.num_qo, self.row_copies):
            return self
        if num_qo == self.num_qo:
            return replace(self, row_copies=row_copies)
        return replace(self, num_qo=num_qo, row_copies=row_copies).tuned()

    def tuned(self) -> FA4Config:
        """Return the same problem with the free choices of the table.

        A CTA pair has no row: it takes those that its bits depend on, which are one CTA's.
        """
        kernel = f"{self.num_qo}q"
        found = tuning_of(TUNED, kernel, self.qkv_dtype, self.qk_depth, self.ov_depth)
        if self.pair_cta:
            found = Tuning(emulated=found.emulated, keys=found.keys)
        return replace(self, tuning=found)

    @classmethod
    def for_attention(
        cls,
        qkv_dtype: DType,
        depth: int,
        *,
        group: int = 1,
        num_qo: int = 2,
        page_size: int = 0,
        bn_cap: int = 0,
        ov_depth: int = 0,
        rope_dtype: DType = DType.INVALID,
        pair_cta: bool = False,
    ) -> FA4Config:
        """Return the configuration of one K/V head, with the dtype's own swizzle, or a wider one
        over small pages.

        The number of heads is a launch value; nothing in the plan depends on it. ``ov_depth`` of 0
        is ``depth``. Where Q and K are wider than V, the columns beyond are rope columns, of the
        type of the others when ``rope_dtype`` names none.
        """
        unit = qkv_dtype.default_swizzle.bytes // qkv_dtype.size
        is_mla = align_up(depth, unit) > align_up(ov_depth or depth, unit)
        if is_mla and not rope_dtype.is_valid:
            rope_dtype = qkv_dtype
        config = cls(
            num_q_heads=group,
            group=group,
            qk_depth=depth,
            ov_depth=ov_depth or depth,
            swizzle_mode=qkv_dtype.default_swizzle,
            is_mla=is_mla,
            rope_dtype=rope_dtype if is_mla else DType.INVALID,
            pair_cta=pair_cta,
            num_qo=num_qo,
            page_size=page_size,
            bn_cap=bn_cap,
            qkv_dtype=qkv_dtype,
        ).tuned()
        # Rope columns may be padded: their chunk is one box, whose rest TMA fills with zeros.
        depths = (config.ov_depth,) if is_mla else (depth, config.ov_depth)
        widest = config.widest_swizzle(*depths)
        return config if widest is config.swizzle_mode else replace(config, swizzle_mode=widest)
