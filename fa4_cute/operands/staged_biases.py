"""Biases of 16 bits that come through shared memory in the Hopper kernel, a slot beside each of K.

Warps that do nothing else copy whole rows of them. A consumer's warp loads four 8 x 8 matrices at
once, of which each thread has those columns of a row of its own whose scores it has, too.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device.ids import lane_index, warp_index
from ..device.math.pack import widened
from ..device.memory import gmem, lane_copies, matrices
from ..device.registers import DEVICE
from ..plan.facts.bias_tile import CHUNK_COLUMNS, LOADED_COLUMNS, ROWS_AT_ONCE, BiasTile
from ..plan.facts.hardware import WARPS_PER_GROUP
from ..plan.facts.wgmma import BLOCK_COLUMNS, ROW_DISTANCE, WGMMA_ROWS
from ..plan.masks.masks import DenseBiasMask
from ..plan.spec.schedule import BIASES
from ..work.context import query_head
from ..work.sm90 import ROWS_PER_WARP, SM90Context, SM90Row, first_position
from .biases import BiasLoad, RowBias


class StagedBias(RowBias):
    """The biases of the thread's row in one tile, which are in shared memory."""

    def __init__(self, ctx: SM90Context, row: SM90Row, slot: Int32) -> None:
        """Find what the lane names in the biases beside ``slot`` of K. Whole warps from here on."""
        self.ctx = ctx
        self.tile = BiasTile(ctx.spec.config.BN)
        self.loads: dict[tuple[int, int], BiasLoad] = {}
        self.smem = ctx.smem.bias_smem(slot, row.consumer)
        lane_row, self.granule = self.tile.named(lane_index())
        first = warp_index() % WARPS_PER_GROUP * ROWS_PER_WARP + row.half * ROW_DISTANCE
        self.row = first + lane_row

    def load_of(self, bias: DenseBiasMask, column: int) -> BiasLoad:
        """Return the load that brings the bias of ``column``, started before or now."""
        first = column - column % LOADED_COLUMNS
        place = bias.slot, first
        if place not in self.loads:
            chunk, granule = first // CHUNK_COLUMNS, first % CHUNK_COLUMNS // BLOCK_COLUMNS
            offset = self.tile.offset(self.row, self.granule + granule, chunk)
            words = matrices.load(self.smem + offset)
            self.loads[place] = StagedLoad(words, first, bias.dtype)
        return self.loads[place]


@dataclass(frozen=True)
class StagedLoad(BiasLoad):
    """A word, two neighbouring columns, of each of several matrices."""

    def value(self, column: int) -> Float32:
        """Return that of ``column`` as a float."""
        word = self.words[(column - self.first) // BLOCK_COLUMNS]
        return widened(word, column % 2, self.dtype.ptx_name)


@cute.jit
def copy_biases(ctx: SM90Context, slot: Int32, tile: Int32) -> None:
    """Start to copy what the consumers' rows need beside the ``tile``-th visited K.

    A warp takes some rows of every chunk at a time, in turn with the others of its role. Rows past
    the sequence have those of its last query; keys past it have zeros.
    """
    config, role = ctx.spec.config, ctx.spec.schedule[BIASES]
    place, steps = BiasTile(config.BN), WGMMA_ROWS // ROWS_AT_ONCE
    lane_row, granule = place.copied(lane_index())
    first_key = ctx.work.key_tile(tile) * config.BN
    column = granule * BLOCK_COLUMNS
    stop = DEVICE.minimum(ctx.work.sequence.seqlen_k - first_key, config.BN)
    first = warp_index() - role.first_warp
    for step in cutlass.range(first, steps * config.num_consumers, role.num_warps, unroll=1):
        consumer = step // steps
        row = step % steps * ROWS_AT_ONCE + lane_row
        source = gmem.element_address(
            row_address(ctx, consumer, row), first_key + column, bias_of(ctx).dtype.size
        )
        smem = ctx.smem.bias_smem(slot, consumer)
        for chunk in range(place.num_chunks):
            more = chunk * CHUNK_COLUMNS
            lane_copies.copy(
                smem + place.offset(row, granule, chunk),
                source + more * bias_of(ctx).dtype.size,
                Int32(column + more < stop),
            )


def bias_of(ctx: SM90Context) -> DenseBiasMask:
    """Return the bias that is staged."""
    (bias,) = ctx.spec.variant.changes.biases
    return bias


def row_address(ctx: SM90Context, consumer: Int32, row: Int32) -> Int64:
    """Return where in memory the biases of ``row`` of a consumer's Q tile begin."""
    (bias,) = ctx.args.extras.biases
    position = first_position(ctx, consumer) + row // ctx.spec.rows_per_position
    query = DEVICE.minimum(position, ctx.work.sequence.seqlen_q - 1)
    where = (ctx.work.batch, query_head(ctx, row), query)
    return gmem.AuxTensor(bias.address, bias.strides).address_of(where)
