"""Transpose role of the Hopper kernel: fp8 V, as TMA loads it, to the form that wgmma takes.

Three warps move blocks of a tile in turn (``plan.compute.value_transpose``). Edges: wait on
``raw_full`` and ``V_empty``; arrive on ``raw_empty`` and ``V_full`` when a tile is transposed.
"""

import cutlass
from cutlass import Int32, Uint32, cute

from ..device.ids import lane_index, warp_index
from ..device.memory import matrices
from ..device.sync import barriers
from ..operands.stale_values import clean_values_together
from ..plan.barriers.named import CLEAN_RAW
from ..plan.compute.value_transpose import EVEN_BYTES, HALVES, ODD_BYTES, ValueTranspose
from ..plan.facts.wgmma import LANES_PER_ROW
from ..plan.memory.rings import Ring
from ..work.persistent import for_each_work
from ..work.sm90 import SM90Context


def selectors() -> tuple[Int32, Int32]:
    """Return which bytes of two words go to the first matrix of a pair, and to the second."""
    is_odd = ValueTranspose.is_odd(Uint32(lane_index()) // LANES_PER_ROW, 0) == 1
    first = Int32(cutlass.select_(is_odd, Int32(ODD_BYTES), Int32(EVEN_BYTES)))
    return first, first ^ (EVEN_BYTES ^ ODD_BYTES)


def transpose_block(
    plan: ValueTranspose, block: Int32, source: Int32, target: Int32, pair: tuple[Int32, Int32]
) -> None:
    """Move one block of a tile; both loads are under way before the first store."""
    # Unsigned numbers are divided by shifts.
    lane, place = Uint32(lane_index()), Uint32(block)
    loaded = [
        matrices.load_transposed(source + Int32(plan.source(lane, place, half)))
        for half in range(HALVES)
    ]
    for half, words in enumerate(loaded):
        columns = (words[:2], words[2:])
        found = [
            matrices.chosen_bytes(low, high, selector)
            for low, high in columns
            for selector in pair
        ]
        matrices.store(target + Int32(plan.target(lane, place, half)), found)


@cute.jit
def transpose_tile(ctx: SM90Context, source: Int32, target: Int32) -> None:
    """Move the calling warp's blocks of a tile from slot ``source`` to slot ``target``."""
    plan, schedule = ValueTranspose.of(ctx.spec.config), ctx.spec.schedule["transpose"]
    pair = selectors()
    first = warp_index() - schedule.first_warp
    for block in cutlass.range(first, plan.num_blocks, schedule.num_warps, unroll=1):
        transpose_block(plan, block, source, target, pair)


@cute.jit
def transpose_work(ctx: SM90Context) -> None:
    """Transpose V of all key tiles of one query tile."""
    config, schedule = ctx.spec.config, ctx.spec.schedule["transpose"]
    raw, values = Ring.of_sm90_loads(config), Ring.of_sm90_values(config)
    loaded, multiplied = ctx.mbars.raw_ring(), ctx.mbars.v_ring()
    r = ctx.ring_start(producer=False, slots=raw.num_slots)
    v = ctx.ring_start(producer=True)
    last = ctx.work.num_key_tiles - 1
    for tile in cutlass.range(ctx.work.num_key_tiles, unroll=1):
        source = ctx.smem.at(raw.get_smem(r))
        loaded.consumer_wait(r)
        if tile == last:
            clean_values_together(
                ctx, last, source, schedule.first_warp,
                lambda: barriers.named_barrier(CLEAN_RAW.number, CLEAN_RAW.threads),
            )  # fmt: skip
        multiplied.producer_acquire(v)
        transpose_tile(ctx, source, ctx.smem.at(values.get_smem(v)))
        barriers.fence_proxy_async_shared()
        barriers.warp_barrier()
        loaded.consumer_arrive_as_warp(r)
        multiplied.producer_arrive_as_warp(v)
        r = r.step()
        v = v.step()


def transpose(ctx: SM90Context) -> None:
    """Run the transpose role."""
    for_each_work(ctx, transpose_work)
