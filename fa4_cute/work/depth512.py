"""What every role of the CTA-pair kernel is given: the pair's work tile and its memories.

Both CTAs decode the same tile and count its key tiles with the rows of the pair; they differ in
their rank, which names their rows of Q, K and O and their columns of V.
"""

from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import cutlass
from cutlass import Float32, Int32

from ..device import ids
from ..device.lanes import row_in_group
from ..device.math.arith import opaque
from ..device.memory import shared
from ..pipelines import Depth512MBars, PairBarriers, RingState
from ..plan.compute.depth512_lanes import lane_half, row_of_lane
from ..plan.facts.hardware import WARP_THREADS, WARPS_PER_GROUP
from ..plan.memory.tmem import Depth512Tmem
from ..plan.spec.depth512_spec import Depth512Spec
from ..plan.spec.issue_order import OneChain
from ..smem import Depth512AttentionSMem
from .pair import InPair
from .progress import Progress
from .row import LaneRow


@dataclass(frozen=True)
class Depth512Context(InPair):
    """The context of one CTA of the pair of the depth-512 kernel."""

    spec: Depth512Spec
    smem: Depth512AttentionSMem

    @property
    def columns(self) -> Depth512Tmem:
        """Named columns of Tensor Memory."""
        return Depth512Tmem.of(self.spec.config)

    def output_chunk(self, tile: int, chunk: Int32 | int) -> Int32:
        """Return the shared address of chunk ``chunk`` of the staged O; there is one tile."""
        return self.smem.o_chunk_smem(chunk)

    @property
    def mbars(self) -> Depth512MBars:
        """The barriers, in the words of their events."""
        return Depth512MBars(self.barriers, self.spec.config.misc_mbars)

    @property
    def order(self) -> OneChain:
        """One chain, which takes every key tile."""
        return OneChain()

    def at(self, index: Int32 | None, progress: Progress) -> Self:
        """Return the context of work ``index`` of a persistent CTA.

        Registers are scarce in its softmax role: what follows from addresses and the rank is
        derived anew for every query tile, else it would be held for all of them.
        With stream-K those of Tensor Memory and of the leader's barriers are.
        """
        if self.spec.variant.streams_keys:
            barriers = PairBarriers.at(self.smem.mbar_base())
            own = replace(self, tmem=self.allocated(), barriers=barriers)
            return super(Depth512Context, own).at(index, progress)
        smem = self.smem.with_base(opaque(self.smem.base))
        own = replace(self, smem=smem, rank=opaque(self.rank))
        return super(Depth512Context, own).at(index, progress)

    def allocated(self) -> Int32:
        """Return the address of the CTA's Tensor Memory, with stream-K from its own place in shared
        memory: until the CTA leaves nothing else is written there."""
        if self.spec.variant.streams_keys:
            return shared.load_b32(self.smem.tmem_addr_ptr())
        return super().allocated()

    def ring_start(self, *, producer: bool) -> RingState:
        """Return the cursor of the slot that the first qk stage of the work's K uses."""
        config, tiles = self.spec.config, self.progress.tiles
        used = tiles * config.slots_per_tile
        return RingState.after(config.num_kv_stages, used, producer=producer)

    @property
    def num_steps(self) -> Int32:
        """Steps of the issue order: one more than key tiles when scores run ahead, 0 without."""
        tiles = self.work.num_key_tiles
        if not self.spec.look_ahead:
            return tiles
        return Int32(cutlass.select_(tiles > 0, tiles + self.spec.value_lag, Int32(0)))


ONLY_CHAIN = 0
"""The softmax group of a CTA has one output; where chains are numbered it is this one."""


class Depth512Row(LaneRow):
    """The thread's row.

    The accumulators of 64 rows (head dim 512) lie in 128 lanes: lanes 64 and up hold the second
    half of the columns of the row 64 lanes below. Threads t and t + 64 then share row t.

    Attributes:
        slot: the row's place among the floats of all rows of the CTA, copies included.
        lane_half: which half of the accumulator's columns the thread holds, 0 or 1.
        chain: number of the warp group's output.
        copy: which copy of the rows the warp has; 0 where a row is once there.
        first_column: the first of the keys of a tile that the copy has.
    """

    chain = ONLY_CHAIN

    def __init__(self, ctx: Depth512Context) -> None:
        """Take the calling thread's row; its scores are those of the even tiles."""
        config = ctx.spec.config
        index = self.slot = row_of_lane(config, row_in_group())
        first_lane = ids.warp_index() % WARPS_PER_GROUP * WARP_THREADS
        ends = (
            row_of_lane(config, first_lane),
            row_of_lane(config, first_lane + (WARP_THREADS - 1)),
        )
        self.lane_half = lane_half(config, first_lane)
        self.copy: Int32 | int = 0
        if config.row_copies > 1:
            rows = config.rows_of_copy
            self.copy, index = first_lane // rows, index % rows
            ends = (ends[0] % rows, ends[1] % rows)
        super().__init__(ctx, index, ends, ctx.work.position, ctx.columns.s(0).start)
        self.first_column = self.copy * config.keys_of_copy
        if config.row_copies > 1:
            self.scores = self.scores + self.first_column

    def with_fresh_index(self) -> Self:
        """Return the same row; what follows from its index is not held from tile to tile."""
        fresh = copy(self)
        fresh.index = opaque(self.index)
        return fresh

    @property
    def scale_slot(self) -> Int32:
        """Number of the thread in its warp group: its place for the query scale."""
        return row_in_group()


def lane_slot(ctx: Depth512Context) -> Int32:
    """Return the shared address of the float of the row that lies in the thread's lane."""
    return row_slot(ctx, row_of_lane(ctx.spec.config, row_in_group()))


def row_slot(ctx: Depth512Context, slot: Int32) -> Int32:
    """Return the shared address of the float that the row of place ``slot`` exchanges."""
    return ctx.smem.correction_smem() + slot * Float32.width // 8
