"""``CommonSpec``: what all kernels' specifications derive alike from configuration and variant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar, Final, TypeVar

from ..compute.probability import ProbabilityPlan
from ..config.config import FA4Config
from ..config.depth512_config import Depth512Config
from ..config.sm90_config import SM90Config
from ..facts.dtypes import DType
from ..facts.hardware import OUTPUT_SWIZZLE, SM90A, SM100A, WARP_THREADS, SwizzleMode, prev_pow2
from ..masks.masks import CAUSAL, NULL
from .combine_spec import CombineSpec
from .extras import Extras
from .params import KERNEL_PARAMS, KernelParams, extended
from .register_tuning import ScoreLoads, is_plain_in_any_order
from .schedule import WarpSchedule
from .variant import Variant

START_TILES: Final = 3
"""What the start and the end of a query tile take, in key tiles of usual size."""

Config = TypeVar("Config", FA4Config, Depth512Config, SM90Config)


def variant_of(variant: Variant | None, *, causal: bool, return_lse: bool) -> Variant:
    """Return ``variant``; None stands for the one with nothing but the two that are asked for."""
    if variant is not None:
        return variant
    return Variant(mask=CAUSAL if causal else NULL, return_lse=return_lse)


def with_features(config: Config, variant: Variant) -> Config:
    """Return ``config`` with the memory and barriers of the features that the kernels have."""
    scale_dtype = DType.FP32 if variant.token_scales else DType.INVALID
    return replace(config, persistent=variant.is_persistent, scale_dtype=scale_dtype)


def may_write_rows(variant: Variant) -> bool:
    """Return whether a Blackwell kernel may write O row by row: where plain CTAs are persistent.

    Others have no registers left for it, or write partial results. With stream-K they always do.
    """
    if variant.streams_keys:
        return True
    return variant.is_persistent and is_plain_in_any_order(variant)


def refuse(reason: str | None) -> None:
    """Raise ValueError with ``reason``, if there is one."""
    if reason is not None:
        raise ValueError(reason)


class CommonSpec(ABC):
    """Base of ``KernelSpec``, ``Depth512Spec`` and ``SM90Spec``.

    Attributes:
        arch: architecture that the kernel is compiled for.
        config: tiles, staging and memory.
        variant: mask, score modifier and the other features.
        schedule: warps and registers of the roles.
    """

    arch: ClassVar[str] = SM100A

    config: FA4Config | Depth512Config | SM90Config
    variant: Variant
    schedule: WarpSchedule

    @property
    def params(self) -> KernelParams:
        """The parameter list."""
        return extended(KERNEL_PARAMS, *self.extras.items())

    @property
    def num_maps(self) -> int:
        """Tensor maps of the parameter list: Q, K, V, O, and rope columns of their own."""
        return sum(param.kind == "tensor_map" for param in self.params.params)

    @property
    def extras(self) -> Extras[str, str, str]:
        """The parameters of the features and of the element type, with their PTX types.

        fp8 operands add the scale of V, which multiplies O; the scales of whole tensors q and k
        are part of ``scale_log2``.
        """
        extras = self.variant.extras
        return extras.with_value_scale("f32") if self.scales_values else extras

    @property
    def scales_values(self) -> bool:
        """Whether O is multiplied by a scale: the operands are fp8."""
        return self.config.qkv_dtype is DType.FP8_E4M3

    @property
    def causal(self) -> bool:
        """Whether the mask is the plain causal one."""
        return self.variant.causal

    @property
    def return_lse(self) -> bool:
        """Whether the log-sum-exp of every row is written."""
        return self.variant.return_lse

    @property
    def packs_floats(self) -> bool:
        """Whether the device computes two floats at once; Hopper does not."""
        return self.arch != SM90A

    @property
    def shares_caps(self) -> bool:
        """Whether softcapped scores share reciprocals; fp8 on Hopper has no registers for it."""
        return self.packs_floats or self.config.qkv_dtype_size > 1

    @property
    def adds_slopes(self) -> bool:
        """Whether ALiBi is added to raw scores, where nothing else changes them."""
        return self.variant.changes.only_slopes

    @property
    def adds_biases(self) -> bool:
        """Whether biases are added to scores in natural units, and nothing else changes them."""
        return self.variant.changes.only_biases

    @property
    def starts_biases(self) -> bool:
        """Whether biases are asked of memory before the scores of their key tile are waited for."""
        return self.variant.changes.only_halves and not self.scales_values

    @property
    def scales_first(self) -> bool:
        """Whether scores are scaled before they change, and then may be any number."""
        return self.variant.modifies_scores and not self.adds_slopes

    @property
    def score_loads(self) -> ScoreLoads:
        """When what changes the scores is loaded."""
        return ScoreLoads.of(self.variant)

    @property
    def probability(self) -> ProbabilityPlan:
        """How P is stored."""
        return ProbabilityPlan.of(self.config.qkv_dtype)

    @property
    def output_dtype(self) -> DType:
        """Element type of O."""
        return self.config.qkv_dtype.output

    @property
    def output_swizzle(self) -> SwizzleMode:
        """Swizzle of the staged O, whose span is a chunk."""
        return OUTPUT_SWIZZLE

    @property
    def output_elems(self) -> int:
        """Columns of one staged chunk of O."""
        return self.output_swizzle.bytes // self.output_dtype.size

    @property
    def layout_o_exceeds_q(self) -> bool:
        """Whether the staged O reaches beyond Q: its elements are larger than Q's."""
        return self.output_dtype.size > self.config.qkv_dtype_size

    @property
    @abstractmethod
    def output_depth(self) -> int:
        """Columns of O."""

    @property
    def combine_spec(self) -> CombineSpec:
        """How rows of split keys are put together."""
        return CombineSpec(self.output_dtype, self.output_depth, self.return_lse, self.arch)

    @property
    def num_threads(self) -> int:
        """Threads per CTA."""
        return self.schedule.num_threads

    @property
    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return self.config.cta_group()

    @property
    def loads_values_apart(self) -> bool:
        """Whether V has a load warp of its own."""
        return self.config.loads_values_apart

    @property
    def orders_heads(self) -> bool:
        """Whether the order of query tiles looks at heads: where the grid says how long all are."""
        return self.variant.is_dense

    @property
    def heads_first(self) -> bool:
        """Whether the longest query tiles of many heads start first, so that short ones end.

        A grid then has a section's heads along x, query tiles along y, then the rest. The CTAs that
        share a query tile are neighbours along x. So are the splits of one, and query tiles counted
        by rows: theirs is not in sections.
        """
        variant = self.variant
        free = not (variant.is_persistent or variant.splits_keys or variant.by_rows)
        return self.orders_heads and variant.longest_first and free

    @property
    def head_by_head(self) -> bool:
        """Whether persistent CTAs take all query tiles of a head before those of the next.

        A head's keys and values stay in the L2 meanwhile. With a window few of them do for long.
        """
        return self.orders_heads and not self.variant.starts_by_row

    @property
    def turns_back(self) -> bool:
        """Whether rounds of CTAs with a fixed order are forwards and backwards in turn."""
        return not self.variant.is_dynamic and (self.head_by_head or self.in_sections)

    @property
    def decodes_briefly(self) -> bool:
        """Whether persistent CTAs that go head by head find their work in few instructions."""
        return False

    @property
    def sequence_by_sequence(self) -> bool:
        """Whether dynamic CTAs take all query tiles of a sequence before those of the next.

        Of causal chunks of prompts over a KV cache, where a late query tile of a chunk may have few
        keys and an early one of another many. An order by place would leave those for the end.
        """
        variant = self.variant
        handed = variant.is_dynamic and not variant.splits_keys
        return handed and variant.causal and variant.is_over_cache

    @property
    def place_by_place(self) -> bool:
        """Whether persistent CTAs take query tile after query tile, each of all heads of many
        sequences before the next one: with a causal mask the longest first."""
        by_sequence = self.sequence_by_sequence or self.head_by_head or self.turns_back
        return self.variant.is_persistent and not (by_sequence or self.variant.by_rows)

    @property
    def may_count_rows(self) -> bool:
        """Whether all warps find the sequence of a packed query tile; with stream-K one does."""
        return not self.variant.streams_keys

    @property
    def may_stream_keys(self) -> bool:
        """Whether there is such a kernel whose CTAs take as many keys each."""
        return False

    @property
    def may_read_alone(self) -> bool:
        """Whether one CTA of an SM reads as fast as all that it has room for."""
        return True

    @property
    def start_tiles(self) -> int:
        """What the start and the end of a query tile take with stream-K, in key tiles."""
        return START_TILES

    @property
    def in_sections(self) -> bool:
        """Whether persistent CTAs take sections of heads, of which the launch says how large.

        Dynamic ones do, the longest query tiles first, and those that take windows.
        """
        variant = self.variant
        if variant.is_dynamic:
            return self.orders_heads or variant.keeps_short
        return variant.is_persistent and self.orders_heads and variant.starts_by_row

    @property
    def first_ends_early(self) -> bool:
        """Whether the first Q tile leaves out the last key tile where it sees nothing of it."""
        return False

    @property
    def second_starts_late(self) -> bool:
        """Whether the second Q tile leaves out the first key tile where it sees nothing of it."""
        return False

    @property
    def reads_pages_ahead(self) -> bool:
        """Whether the page table is read ahead of the copies of a tile that has several pages."""
        return False

    @property
    def tiles_of_pages(self) -> int:
        """Key tiles whose pages the lanes of a load warp hold at a time: of few rows, whose tiles
        may take less than the page table's answer, as many as there are lanes for."""
        page = self.variant.page_size
        if not page or self.row_copies == 1:
            return 1
        return prev_pow2(WARP_THREADS // (self.config.BN // gcd(self.config.BN, page)))

    def positions_before(self, seqlen_q: Any) -> Any:
        """Return how many positions before a sequence its first query tile begins."""
        return 0

    @property
    def writes_rows(self) -> bool:
        """Whether O goes row by row from the registers to memory, and is staged nowhere: the next Q
        may come before it is written."""
        return self.config.writes_rows

    @property
    def correction_writes(self) -> bool:
        """Whether the correction role writes O: in persistent CTAs whose P cross, and in plain
        persistent pairs of wide heads.

        Then the softmax goes on with the next query tile at once.
        """
        return self.config.correction_writes

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory per CTA."""
        return self.config.smem_used

    @property
    def rows_per_position(self) -> int:
        """Rows of a Q tile that share a sequence position: the group when it is fused, else 1."""
        return self.config.group if self.config.fuse_gqa else 1

    @property
    @abstractmethod
    def tile_positions(self) -> int:
        """Sequence positions of one Q tile."""

    @property
    def row_copies(self) -> int:
        """Copies of the rows of a Q tile in its memory, each of ``query_rows``."""
        return self.config.row_copies

    @property
    def query_rows(self) -> int:
        """Rows of one copy of a Q tile in its memory."""
        return self.tile_positions * self.rows_per_position

    @property
    def k_rows(self) -> int:
        """Keys of one slot of K."""
        return self.config.k_rows_per_cta()
