"""What every role of the Hopper kernel is given, and the two rows of a consumer's thread."""

from copy import copy
from dataclasses import dataclass
from typing import Any

from cutlass import Float32, Int32

from ..device import ids
from ..device.math.fragment import row_in_warp
from ..device.registers import DEVICE
from ..pipelines import RingState, SM90MBars
from ..plan.facts.hardware import WARPS_PER_GROUP
from ..plan.facts.numbers import MAX_SEQLEN
from ..plan.facts.wgmma import NUM_ROWS, ROW_DISTANCE
from ..plan.masks.masks import is_zero
from ..plan.spec.issue_order import OneChain
from ..plan.spec.sm90_spec import SM90Spec
from ..smem import SM90AttentionSMem
from .context import AttentionContext
from .row import ThreadRow

ROWS_PER_WARP = NUM_ROWS * ROW_DISTANCE


@dataclass(frozen=True)
class SM90Context(AttentionContext):
    """The context of one CTA of the Hopper kernel."""

    spec: SM90Spec
    smem: SM90AttentionSMem

    @property
    def mbars(self) -> SM90MBars:
        """The barriers, in the words of their events."""
        return SM90MBars(self.barriers, self.spec.config.misc_mbars)

    @property
    def order(self) -> OneChain:
        """Every consumer takes every key tile."""
        return self.spec.issue_order

    @property
    def never(self) -> Int32:
        """0 in every call, which the assembler does not know: no length is negative."""
        return Int32(self.args.seqlen_k < Int32(0))

    def ring_start(
        self, *, producer: bool, slots: int = 0, tile: Int32 | int = 0
    ) -> RingState:
        """Return the cursor of the slot that the work's first K, or V, uses, or that of ``tile``.

        ``slots`` are those of the ring, 0 for those of K and of V as it is multiplied.
        """
        stages, before = slots or self.spec.config.num_kv_stages, self.progress.tiles
        if not is_zero(tile):
            before = self.loaded_before(tile)
        return RingState.after(stages, before, producer=producer)

    def output_chunk(self, tile: Int32 | int, chunk: Int32 | int) -> Int32:
        """Return the shared address of chunk ``chunk`` of the staged O of Q tile ``tile``."""
        return self.smem.o_chunk_smem(tile, chunk)


def first_position(ctx: SM90Context, consumer: Int32 | int) -> Int32:
    """Return the position of the first row of a consumer's Q tile.

    A Q tile that would lie before its sequence stands after it: it has no rows either way.
    """
    position = ctx.work.position + consumer * ctx.spec.tile_positions
    if not ctx.spec.ends_with_queries:
        return position
    return DEVICE.select(position < 0, ctx.work.sequence.seqlen_q, position)


def place_of_rows(ctx: SM90Context, consumer: Int32 | int) -> tuple[Int32, Int32, Int32]:
    """Return where a consumer's Q tile lies in the maps of Q and O: row, head, batch entry."""
    sequence = ctx.work.sequence
    first = sequence.first_query + first_position(ctx, consumer)
    return first, ctx.work.head, sequence.query_batch


class SM90Row(ThreadRow):
    """One of the two rows of which a thread holds a part.

    Attributes:
        consumer: number of the warp group, which is that of its Q tile.
        half: which of the thread's rows it is.
    """

    def __init__(self, ctx: SM90Context, consumer: Int32, half: int) -> None:
        """Take row ``half`` of the calling thread."""
        first_row = ids.warp_index() % WARPS_PER_GROUP * ROWS_PER_WARP
        ends = (first_row, first_row + (ROWS_PER_WARP - 1))
        first = first_position(ctx, consumer)
        index = first_row + row_in_warp() + half * ROW_DISTANCE
        super().__init__(ctx, index, ends, first)
        self.consumer = consumer
        self.half = half
        if ctx.spec.config.q_rows < ctx.spec.query_rows:
            # What is left over of the tile is no row of any sequence.
            is_query = index < ctx.spec.config.q_rows
            self.position = DEVICE.select(is_query, self.position, MAX_SEQLEN)

    @property
    def scale_slot(self) -> Int32:
        """Number of the row among those of all threads: its place for the query scale."""
        return ids.thread_index() * NUM_ROWS + self.half


class RunningRows:
    """What a consumer's thread carries from key tile to key tile.

    Attributes:
        o: its registers of the accumulator.
        p: its registers of P of the tile before, packed.
        row_max: the maximum that each row uses.
        row_sum: of each row, the thread's part of the sum of exponentials.
        factors: of each row, what O is due before P V of the tile before is added; none where
            wgmma adds it.
        most_kept: of each row, the largest maximum with which it keeps the one that it uses.
        exponents: of each row, scale and offset of its scores with that maximum. These two are
            found anew for every key tile, and none is carried, where registers are scarce.
    """

    def __init__(
        self,
        o: list[Float32],
        p: list[Int32],
        row_max: list[Float32],
        row_sum: list[Float32],
        factors: list[Float32],
        num_held: int,
    ) -> None:
        """Take the registers; what follows from a maximum in use, held for ``num_held`` rows, is
        not known yet."""
        self.o = o
        self.p = p
        self.row_max = row_max
        self.row_sum = row_sum
        self.factors = factors
        self.most_kept = [Float32(0.0)] * num_held
        self.exponents = [Float32(0.0)] * (2 * num_held)

    def __extract_mlir_values__(self) -> list[Any]:
        """Return the registers, for loops that carry them."""
        return [v.ir_value() for registers in vars(self).values() for v in registers]

    def __new_from_mlir_values__(self, values: list[Any]) -> "RunningRows":
        """Return the rows whose registers are ``values``."""
        taken, found = iter(values), copy(self)
        for name, registers in vars(self).items():
            setattr(found, name, [type(old)(next(taken)) for old in registers])
        return found
