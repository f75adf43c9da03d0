"""``KernelSpec``: everything one compiled kernel is specialised on, with its plans in one place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from ..compute.column_plan import ColumnPlan
from ..compute.exp2_plan import Exp2Plan
from ..compute.mma_plans import pv_plan
from ..config.config import FA4Config
from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode
from ..masks.masks import NULL
from ..memory.lane_pieces import LanePieces
from .common_spec import CommonSpec, may_write_rows, refuse, variant_of, with_features
from .extras import CACHE_AXES, CachedRows, Extras
from .issue_order import IssueOrder
from .limits import unsupported_reason
from .params import KernelParams, with_rope_maps
from .register_tuning import (
    SHALLOW_DEPTH,
    attention_schedule,
    choices_for,
    holds_factor_address,
    is_plain,
    most_keys,
)
from .schedule import ATTENTION_SCHEDULE, WarpSchedule
from .variant import Variant

TIGHT_RING: Final = 4
"""Slots of K and V up to which a chain that leads, and so reads out of order, leaves two load warps
no room: a parity could stand for two rounds (``tests/plan/memory/test_load_warps.py``)."""
HOLDING_DEPTH: Final = 64
"""Head dims of 16-bit operands up to which the address of shared memory is held."""


@dataclass(frozen=True)
class KernelSpec(CommonSpec):
    """Static choices of one compile; lengths, batch, heads and scale stay run-time values.

    Args:
        config: tiles, staging and memory.
        variant: mask, score modifier and the other features.
        schedule: warps and registers of the roles.
    """

    config: FA4Config
    variant: Variant = field(default=Variant())
    schedule: WarpSchedule = field(default=ATTENTION_SCHEDULE)

    @classmethod
    def for_attention(
        cls,
        dtype: DType,
        head_dim: int,
        *,
        group: int = 1,
        causal: bool = False,
        return_lse: bool = False,
        variant: Variant | None = None,
        num_qo: int | None = None,
        head_dim_v: int = 0,
        rope_dtype: DType = DType.INVALID,
        shared_rope: bool = False,
        pair_cta: bool = False,
    ) -> KernelSpec:
        """Return the kernel for one element type, head dimension and group size.

        ``causal`` and ``return_lse`` are short forms for a ``variant`` that has only these;
        ``num_qo`` is the number of Q tiles per CTA, 1 or 2; None takes 2, or 1 where a cluster
        shares the keys. ``head_dim_v`` is that of V and O where it differs; columns of Q and K
        beyond it are rope columns, of type ``rope_dtype`` or, by default, the type of the others;
        ``shared_rope`` has those of K in one head for all.
        ``pair_cta`` lets two CTAs share every MMA.

        Raises:
            ValueError: naming the limit, when no such kernel exists.
        """
        variant = variant_of(variant, causal=causal, return_lse=return_lse)
        if num_qo is None:
            num_qo = 1 if variant.in_cluster or variant.last_joins else 2
        config = FA4Config.for_attention(
            dtype,
            head_dim,
            group=group,
            num_qo=num_qo,
            ov_depth=head_dim_v,
            rope_dtype=rope_dtype,
            pair_cta=pair_cta,
            page_size=variant.page_size,
            bn_cap=most_keys(variant, num_qo),
        )
        config = replace(
            with_features(config, variant),
            dynamic=variant.is_dynamic,
            streams_keys=variant.streams_keys,
            two_rings=variant.token_scales and not pair_cta,
            shared_rope=shared_rope,
            splitk_partitions=variant.num_partitions,
        )
        return cls(config, variant).with_config(config)

    @property
    def name(self) -> str:
        """Entry name of the kernel, legal in PTX, that says what it is specialised on."""
        config = self.config
        depth = f"d{config.qk_depth}"
        depth += f"v{config.ov_depth}" if config.ov_depth != config.qk_depth else ""
        parts = ["fa4_sm100", config.qkv_dtype.value, depth, f"g{config.group}"]
        parts += [f"rope_{config.rope_dtype.value}"] if config.rope_apart else []
        parts += ["shared"] if config.shared_rope else []
        parts += self.variant.name_parts
        parts += ["1q"] if config.num_qo == 1 else []
        parts += [f"x{config.row_copies}"] if config.row_copies > 1 else []
        parts += ["lanes"] if config.copies_by_lanes else []
        parts += ["pair"] if config.pair_cta else []
        return "_".join(parts)

    @property
    def params(self) -> KernelParams:
        """The parameter list."""
        return with_rope_maps(super().params) if self.config.rope_apart else super().params

    @property
    def extras(self) -> Extras[str, str, str]:
        """The parameters of the features and of the element type; of K and V that lanes copy."""
        if not self.config.copies_by_lanes:
            return super().extras
        strides = ("u64",) * len(CACHE_AXES)
        return super().extras.with_cache(*(CachedRows(slot, "u64", strides) for slot in range(2)))

    @property
    def lane_pieces(self) -> LanePieces:
        """What each lane copies of K and V where lanes do."""
        config = self.config
        return LanePieces(config.BN, config.page_size, config.swizzle_mode)

    @property
    def output_swizzle(self) -> SwizzleMode:
        """Swizzle of the staged O, whose span is a chunk; a cluster deals out narrower chunks."""
        if self.config.splitk_partitions > 1:
            return self.config.reduce_scatter.swizzle
        return super().output_swizzle

    def with_config(self, config: FA4Config) -> KernelSpec:
        """Return the same kernel with other tiles, staging and free choices.

        Raises:
            ValueError: naming the limit, when no such kernel exists.
        """
        config = replace(config, tuning=choices_for(config, self.variant))
        config = replace(config, writes_rows=writes_rows(config, self.variant))
        if self.variant.last_joins and config.num_qo != 1:
            raise ValueError(
                f"num_qo={config.num_qo}: the last CTA joins the splits of a single Q tile; "
                "nearest supported choice: num_qo=1"
            )
        refuse(unsupported_reason(config))
        schedule = attention_schedule(config, self.variant)
        return replace(self, config=config, schedule=schedule)

    @property
    def first_batches(self) -> tuple[int, ...]:
        """First batch of exponentials of each PV stage; the stage before it is handed over at its
        start."""
        pv, batches = pv_plan(self.config), self.exp2_plan.num_batches
        starts = (pv.k_blocks(stage).start for stage in range(pv.num_stages))
        return tuple(batches * start // pv.num_k_mmas for start in starts)

    @property
    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return self.config.cluster_size()

    @property
    def output_depth(self) -> int:
        """Columns of O."""
        return self.config.ov_depth

    @property
    def exp2_plan(self) -> Exp2Plan:
        """Which exponentials run as a polynomial."""
        return Exp2Plan.of(self.config)

    @property
    def column_plan(self) -> ColumnPlan:
        """How a softmax thread reads its row of scores."""
        return ColumnPlan(self.exp2_plan.bn, self.exp2_plan.num_batches)

    @property
    def issue_order(self) -> IssueOrder:
        """How the key tiles are dealt out to the chains, and the order of MMAs and loads."""
        config, apart = self.config, self.first_ends_early
        late, runs_on = self.second_starts_late, config.correction_writes
        return IssueOrder(config.num_qo, config.crosses, apart, late, runs_on)

    @property
    def first_ends_early(self) -> bool:
        """Whether the first Q tile leaves out the last key tile where its rows see nothing of it.

        Where the softmax is the limit, with fp8 operands and up to ``SHALLOW_DEPTH``, it is
        predicted to gain nothing in a CTA of one query tile, nor where heads that share keys leave
        a Q tile fewer positions than half a key tile, so that it seldom has one to leave out.
        Scales per token would have to be given back all the same.
        """
        config = self.config
        if not (config.crosses and self.variant.ends_by_row) or self.variant.token_scales:
            return False
        is_deep = config.qkv_dtype_size > 1 and config.qk_depth > SHALLOW_DEPTH
        return is_deep or (config.correction_writes and 2 * self.tile_positions >= config.BN)

    @property
    def second_starts_late(self) -> bool:
        """Whether the second Q tile leaves out the first key tile where its rows see nothing of it.

        It does so only together with the first Q tile, which leaves out the last, and not where V
        has a load warp of its own beside a tight ring.
        """
        config = self.config
        is_tight = config.loads_values_apart and config.num_kv_stages <= TIGHT_RING
        return self.first_ends_early and self.variant.starts_by_row and not is_tight

    @property
    def holds_base(self) -> bool:
        """Whether the address of shared memory stays in a register.

        Else the assembler asks for the CTA's number in every key tile, and computes it anew. It is
        held where that is predicted to win: with fp8 operands in persistent CTAs, but not beside a
        mask and the address of a factor, with 16-bit ones up to ``HOLDING_DEPTH``. Where scores are
        changed, registers are scarce.
        """
        config = self.config
        if not config.crosses or self.variant.modifies_scores:
            return False
        if config.qkv_dtype_size == 1:
            masked_too = self.variant.mask != NULL and self.holds_factor_address
            return self.variant.is_persistent and not masked_too
        return config.qk_depth <= HOLDING_DEPTH

    @property
    def holds_factor_address(self) -> bool:
        """Whether the address of a row's correction factor stays in a register."""
        return holds_factor_address(self.config, self.variant)

    @property
    def decodes_briefly(self) -> bool:
        """With one Q tile, whose softmax groups find their work between query tiles, or of fp8
        operands up to head dim ``SHALLOW_DEPTH`` with two: the softmax loops leave little of the
        instruction cache, and what stands around them is fetched for every query tile. Where query
        tiles run on the MMA role does nothing else between them.
        """
        config = self.config
        few = config.qkv_dtype_size == 1 and config.qk_depth <= SHALLOW_DEPTH
        return (few or config.num_qo == 1 or self.correction_writes) and self.head_by_head

    @property
    def may_stream_keys(self) -> bool:
        """With one Q tile, whose softmax groups put parts together."""
        return self.config.num_qo == 1 and not self.config.pair_cta

    @property
    def masks_apart(self) -> bool:
        """Whether key tiles that a warp sees whole have a loop of their own, without a mask.

        A second copy of the softmax loop takes the others. Taken where it is predicted to win: with
        a mask, in persistent CTAs and with fp8 operands the copy costs what it spares, or more.
        """
        config, variant = self.config, self.variant
        is_16_bit = config.qkv_dtype_size > 1
        shallow = is_16_bit and config.qk_depth <= SHALLOW_DEPTH and config.num_qo > 1
        return config.crosses and shallow and is_plain(variant) and variant.mask == NULL

    @property
    def drains_rings(self) -> bool:
        """Whether the load role ends with a wait for every slot: the CTA of a pair must not end
        before the other's MMAs, and a persistent one uses all slots again."""
        return self.config.pair_cta or self.variant.is_persistent

    @property
    def shares_softmax(self) -> bool:
        """Whether both softmax groups run one copy of the code, and find out which chain is theirs.

        The instruction cache holds 32 KB, and the code of a kernel is 46 to 52 KB so, where it was
        61 to 67. It is taken where it is predicted to win, where query tiles run on: a CTA of one
        query tile comes to the code around the loop once, and starts 100 to 450 cycles later.
        """
        return self.correction_writes

    @property
    def tile_positions(self) -> int:
        """Sequence positions of one Q tile of one softmax warp group."""
        return self.config.rows_of_copy // self.rows_per_position

    @property
    def key_rows(self) -> int:
        """Keys of one slot of V."""
        return self.config.BN


def writes_rows(config: FA4Config, variant: Variant) -> bool:
    """Return whether O goes row by row from the registers to memory.

    The softmax has registers for that where a kernel is plain. Where P crosses the correction role
    writes all of a query tile that a persistent CTA has for itself.
    """
    whole = variant.is_persistent and not variant.splits_keys
    return not config.pair_cta and (may_write_rows(variant) or (whole and config.crosses))
