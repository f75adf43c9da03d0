"""What every role is given: the specification, the memories, and the work tile of the CTA."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cutlass import Int32

from ..device.lanes import row_in_group
from ..device.math import mma
from ..device.registers import DEVICE
from ..pipelines import BarrierBlock, FA4MiscMBars, MBars, RingState
from ..plan.barriers.chains import CHAINS, of_chain
from ..plan.facts.dtypes import DType
from ..plan.facts.hardware import WARP_GROUP_THREADS
from ..plan.masks.masks import is_zero
from ..plan.memory.tmem import AttentionTmem, TmemMap
from ..plan.spec.attention_spec import AttentionSpec
from ..plan.spec.issue_order import ChainOrder, IssueOrder
from ..plan.spec.kernel_spec import KernelSpec
from ..smem import SharedMemory, SM100AttentionSMem
from ..tma import TensorMaps
from .progress import START, Progress, counted
from .sequence import Arguments
from .stream_k import Stretch, work_in_line
from .tile import WorkTile, decode_work

FACTOR_BYTES = WARP_GROUP_THREADS * DType.FP32.size
"""Shared bytes of the correction factors of a chain."""
UNDECODED: Any = None
"""Stands for the work of a context before its role has decoded it."""


@dataclass(frozen=True)
class AttentionContext(ABC):
    """What the contexts of all kernels have in common.

    Attributes:
        spec: the static choices.
        args: the arguments of the call.
        maps: the tensor maps.
        smem: the CTA's shared memory.
        barriers: its mbarriers.
        work: the work tile of the CTA.
        progress: what a persistent CTA has done before this work.
        index: number of the work in the order of the schedule; None where the grid says which work
            it is.
        pages: in the load role, the pages of the key tile, one to a lane; None where each is looked
            up in front of its copy.
        first_lane: the lane with the first page of the tile where lanes hold those of several.
    """

    spec: AttentionSpec
    args: Arguments
    maps: TensorMaps
    smem: SharedMemory
    barriers: BarrierBlock
    work: WorkTile = field(default=UNDECODED, kw_only=True)
    progress: Progress = field(default=START, kw_only=True)
    index: Int32 | None = field(default=None, kw_only=True)
    pages: Int32 | None = field(default=None, kw_only=True)
    first_lane: Int32 | None = field(default=None, kw_only=True)

    def decoded(self) -> Self:
        """Return the same context with the work tile of the CTA.

        Each role decodes for itself, so that no register is held for another role's needs.
        """
        if self.spec.variant.streams_keys:
            return replace(self, work=work_in_line(self.spec, self.args, self.stretch))
        return replace(self, work=decode_work(self.spec, self.args, self.index))

    def at(self, index: Int32 | None, progress: Progress) -> Self:
        """Return the context of work ``index`` of a persistent CTA, with stream-K of the next."""
        return replace(self, index=index, progress=progress.alone()).decoded()

    @property
    def stretch(self) -> Stretch:
        """The CTA's stretch of the line."""
        return Stretch(self.smem.stretch_smem())

    def step(self, chain: Int32 | int, tile: Int32) -> Int32:
        """Return the number of ``chain``'s ``tile``-th key tile among all that the CTA gives it."""
        return counted(tile, self.progress.steps_of(chain))

    def factor_step(self, chain: Int32 | int, tile: Int32) -> Int32:
        """Return the number of the correction of ``chain`` before its ``tile``-th key tile.

        The first key tile of a query tile has none. Where the correction role writes O, what it
        needs for that follows a query tile's factors, as if for one key tile more.
        """
        if self.spec.correction_writes:
            return counted(tile - 1, self.progress.steps_of(chain))
        return counted(tile - 1, self.progress.corrections_of(chain))

    def num_tiles(self, chain: Int32 | int) -> Int32:
        """Return how many key tiles of the work ``chain`` takes."""
        return self.order.num_tiles(chain, self.work.num_key_tiles, self.work.num_hidden)

    @property
    def query_step(self) -> Int32:
        """Number of the query tile among those of the CTA that have key tiles."""
        return counted(Int32(0), self.progress.loaded)

    def loaded_before(self, tile: Int32) -> Int32:
        """Return how many K tiles the CTA has loaded before the ``tile``-th of this work."""
        return tile if is_zero(self.progress.tiles) else self.progress.tiles + tile

    def decode_again(self) -> Self:
        """Return the same context with the work tile decoded anew.

        After a long loop this costs a few instructions; carrying the tile costs registers. The
        count of key tiles costs more of them than a register, but in a cluster none is left.
        """
        again = self.decoded().work
        if self.spec.variant.in_cluster:
            return replace(self, work=again)
        kept = self.work
        again = replace(again, num_key_tiles=kept.num_key_tiles, num_hidden=kept.num_hidden)
        return replace(self, work=again)

    def slice_start(self, size: int) -> Int32 | int:
        """Return where the CTA's slice begins in what a pair of CTAs divides: here it is all."""
        return 0

    @property
    @abstractmethod
    def mbars(self) -> MBars:
        """The barriers, in the words of their events."""

    @property
    @abstractmethod
    def order(self) -> ChainOrder:
        """How the key tiles go to the chains."""

    @abstractmethod
    def output_chunk(self, tile: int, chunk: Int32 | int) -> Int32:
        """Return the shared address of chunk ``chunk`` of the staged O of Q tile ``tile``."""


@dataclass(frozen=True)
class TmemContext(AttentionContext):
    """What the contexts of kernels with Tensor Memory have in common.

    Attributes:
        tmem: the CTA's Tensor Memory.
    """

    tmem: Int32

    @property
    @abstractmethod
    def columns(self) -> TmemMap:
        """Named columns of Tensor Memory."""

    def allocated(self) -> Int32:
        """Return the address of the CTA's Tensor Memory."""
        return self.tmem


@dataclass(frozen=True)
class KernelContext(TmemContext):
    """The context of one CTA of the kernel with two Q tiles, or one.

    Attributes:
        own_factor: shared address of the calling row's correction factor of chain 0, where it is
            held; None where it is found anew in every key tile.
    """

    spec: KernelSpec
    smem: SM100AttentionSMem
    own_factor: Int32 | None = field(default=None, kw_only=True)

    @property
    def mbars(self) -> FA4MiscMBars:
        """The barriers, in the words of their events."""
        return FA4MiscMBars(self.barriers, self.spec.config.misc_mbars)

    @property
    def order(self) -> IssueOrder:
        """How the key tiles go to the chains."""
        return self.spec.issue_order

    def of_chain(self, chain: Int32 | int) -> Self:
        """Return the context in which the work has the key tiles that ``chain`` takes alone.

        So chain 0 holds one count where the chains end apart, not two. The first key tile of chain
        1 is the second one of the CTA where it leads.

        What is hidden from chain 0 stays known to chain 1, which waits for its readings.
        """
        if not self.order.ends_apart:
            return self
        work, first_tile = self.work, self.work.first_tile
        if self.order.starts_apart:
            first_tile = counted(of_chain(chain, (Int32(0), work.lead)), first_tile)
        own = replace(
            work, first_tile=first_tile, num_key_tiles=self.num_tiles(chain),
            num_hidden=of_chain(chain, (0, work.num_hidden)),
        )  # fmt: skip
        return replace(self, work=own)

    def at_row(self) -> Self:
        """Return the context that holds the address of the row's factor, if the kernel does."""
        if not self.spec.holds_factor_address:
            return self
        return replace(self, own_factor=factor_address(self, 0))

    def ring_start(self, *, producer: bool) -> RingState:
        """Return the cursor of the slot that the work's first K tile uses."""
        config, tiles = self.spec.config, self.progress.tiles
        return RingState.after(
            config.num_kv_stages, tiles * 2 if config.use_fused_kv else tiles, producer=producer
        )

    @property
    def operand_smem(self) -> SM100AttentionSMem:
        """Shared memory with the addresses that matrix descriptors name it by."""
        if not self.spec.variant.in_cluster:
            return self.smem
        return self.smem.with_base(mma.descriptor_address(self.smem.base))

    @property
    def columns(self) -> AttentionTmem:
        """Named columns of Tensor Memory."""
        return AttentionTmem.of(self.spec.config)

    def output_chunk(self, tile: int, chunk: Int32 | int) -> Int32:
        """Return the shared address of chunk ``chunk`` of the staged O of Q tile ``tile``."""
        return self.smem.o_chunk_smem(tile, chunk)


def query_head(ctx: AttentionContext, row: Int32) -> Int32:
    """Return the query head of row ``row`` of a Q tile: heads of a group may share a tile."""
    group = ctx.spec.rows_per_position
    return ctx.work.head * group + row % group


def place_of_p(ctx: KernelContext, chain: Int32 | int, tile: Int32) -> Int32 | int:
    """Return the first column of P of the chain's ``tile``-th key tile."""
    place = of_chain(chain, [ctx.columns.borrow_s_as_p(c).start for c in CHAINS])
    if not ctx.order.keeps_last(chain):
        return place
    is_last = tile == ctx.num_tiles(chain) - 1
    last = of_chain(chain, [ctx.columns.last_p(c).start for c in CHAINS])
    return DEVICE.select(is_last, last, place)


def factor_address(ctx: KernelContext, chain: Int32 | int) -> Int32:
    """Return the shared address of the calling row's correction factor of ``chain``."""
    if ctx.own_factor is not None:
        return ctx.own_factor + chain * FACTOR_BYTES
    row = row_in_group() + chain * WARP_GROUP_THREADS
    return ctx.smem.correction_smem() + row * DType.FP32.size
