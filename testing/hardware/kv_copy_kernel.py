"""A kernel that copies K and V tiles through this package's own rings, for sm_90 and sm_100.

The producer warp fills the rings as the load role does; the consumer warps wait, read and release as
the MMA role does, but copy each slot to global memory instead of multiplying. No instruction of it
needs Tensor Memory, so a Hopper GPU executes the same rings as the attention kernels.
"""

from dataclasses import dataclass
from typing import Any

import cutlass
from cutlass import Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_ptr
from cutlass.cute.typing import AddressSpace

from fa4_cute.device import ids
from fa4_cute.device.memory import tma
from fa4_cute.device.ptx import emit
from fa4_cute.device.sync import barriers
from fa4_cute.pipelines import (
    BarrierBlock,
    RingState,
    TMAProducerPipeline,
    first_slots,
    next_slots,
)
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.memory.chunks import depth_chunks, value_chunks
from fa4_cute.plan.memory.rings import Ring
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.tma import CtaSlice, load_key_chunks
from testing.hardware.kv_copy import (
    CONSUMER_THREADS,
    COPY_BARRIER,
    COPY_BYTES,
    PRODUCER_WARP,
    KvCopySpec,
)

STAND_IN_SHAPE = (8, 64)


@dataclass(frozen=True)
class Share:
    """A CTA's memories and its share of the work: all key tiles of one head of one batch entry."""

    smem: Int32
    barriers: BarrierBlock
    head: Int32
    batch: Int32
    num_tiles: Int32


class KvCopy:
    """One compiled copy kernel; ``spec`` holds all static choices."""

    def __init__(self, spec: KvCopySpec) -> None:
        self.spec = spec
        self.config = spec.attention.config
        self.layout = AttentionSMemLayout(self.config)

    @cute.kernel
    def kernel(self, maps: tuple[cute.CopyAtom, cute.CopyAtom], image: Int64, seqlen_k: Int32) -> None:
        """Entry: parameters in the order of ``KvCopySpec.params``."""
        k_map, v_map = [tma.tensor_map_address(tensor_map) for tensor_map in maps]
        smem = cute.arch.get_dyn_smem(
            cutlass.Uint8, alignment=SwizzleMode.B128.pattern_bytes
        ).toint()
        smem = Int32(smem)
        warp = ids.warp_index()
        block = BarrierBlock(smem + self.layout.mbar_byte_offset)
        if warp == 0:
            self.initialise_barriers(block)
        barriers.cta_barrier()
        _, head, batch = ids.block_index()
        num_tiles = (seqlen_k + (self.config.BN - 1)) // self.config.BN
        ctx = Share(smem, block, head, batch, num_tiles)
        if warp == PRODUCER_WARP:
            self.produce(ctx, k_map, v_map)
        else:
            # A head's share of the image; 64 bits, because the product may exceed 32.
            number = batch * Int32(self.heads()) + head
            share = Int64(number) * Int64(num_tiles) * self.spec.tile_bytes
            self.consume(ctx, image + share)

    def heads(self) -> Int32:
        """Return the number of heads: the grid's second extent."""
        return emit("mov.u32 $0, %nctaid.y;", (Int32,))[0]

    @cute.jit
    def initialise_barriers(self, block: BarrierBlock) -> None:
        """Lane i initialises barrier i of the plan with the plan's count."""
        counts = self.config.misc_mbars.counts()
        lane = ids.lane_index()
        for mbar in cutlass.range_constexpr(len(counts)):
            if lane == mbar:
                barriers.mbarrier_init(block.address_of(mbar), Int32(counts[mbar]))
        barriers.fence_mbarrier_init()

    @cute.jit
    def produce(self, ctx: Share, k_map: Int64, v_map: Int64) -> None:
        """Load every K and V tile through the rings, each part after the wait for its slot."""
        k_ring = TMAProducerPipeline(ctx.barriers, Ring.of_keys(self.config))
        v_ring = TMAProducerPipeline(ctx.barriers, Ring.of_values(self.config))
        k, v = first_slots(self.config, RingState.producer(self.config.num_kv_stages))
        for tile in cutlass.range(ctx.num_tiles, unroll=1):
            for part in cutlass.range_constexpr(self.config.num_qk_stages):
                keys = CtaSlice(k_map, depth_chunks(self.config, part), self.config.BN)
                self.fill(ctx, k_ring, k, part, keys, tile)
            values = CtaSlice(v_map, value_chunks(self.config), self.config.BN)
            self.fill(ctx, v_ring, v, 0, values, tile)
            k, v = next_slots(self.config, k, v)

    def fill(
        self, ctx: Share, ring: TMAProducerPipeline, state: RingState, part: int, piece: CtaSlice,
        tile: Int32,
    ) -> None:  # fmt: skip
        """Wait for part ``part`` of the slot, announce the plan's bytes and issue its boxes."""
        ring.acquire(state, part)
        place = ring.expect(state, part)
        where = (tile * self.config.BN, ctx.head, ctx.batch)
        address = ctx.barriers.address_of(place.mbar)
        smem = ctx.smem + place.byte_offset
        load_key_chunks(self.spec.attention, piece, where, smem, address)

    @cute.jit
    def consume(self, ctx: Share, image: Int64) -> None:
        """Copy every slot to ``image``: for each tile its K slot, then its V slot."""
        k_ring, v_ring = Ring.of_keys(self.config), Ring.of_values(self.config)
        k, v = first_slots(self.config, RingState.consumer(self.config.num_kv_stages))
        for _ in cutlass.range(ctx.num_tiles, unroll=1):
            self.copy_slot(ctx, k_ring, k, image)
            self.copy_slot(ctx, v_ring, v, image + k_ring.slot_bytes)
            image = image + (k_ring.slot_bytes + v_ring.slot_bytes)
            k, v = next_slots(self.config, k, v)

    @cute.jit
    def copy_slot(
        self,
        ctx: Share,
        ring: Ring,
        state: RingState,
        image: Int64,
    ) -> None:
        """Wait for every part of the slot, copy it, and free it for the producer."""
        for part in cutlass.range_constexpr(ring.num_qk_stages):
            ctx.barriers.wait(ring.pipeline.consumer_wait(state, part))
        thread = ids.thread_index()
        first = thread * COPY_BYTES
        source = ctx.smem + ring.get_smem(state) + first
        target = image + Int64(first)
        stride = CONSUMER_THREADS * COPY_BYTES
        for _ in cutlass.range(ring.slot_bytes // stride, unroll=1):
            words = emit("ld.shared.v4.b32 {$0, $1, $2, $3}, [$4];", (Int32,) * 4, (source,))
            emit("st.global.v4.b32 [$0], {$1, $2, $3, $4};", (), (target, *words))
            source = source + stride
            target = target + stride
        # The plan counts one arrival, the MMA's commit: here all readers meet and one arrives.
        barriers.named_barrier(COPY_BARRIER, CONSUMER_THREADS)
        if thread == 0:
            for part in cutlass.range_constexpr(ring.num_qk_stages):
                ctx.barriers.arrive(ring.pipeline.consumer_mbar(state.index, part))


def stand_in_map(pointer: cute.Pointer) -> cute.CopyAtom:
    """Return a TMA atom that stands for a 128-byte tensor-map parameter."""
    rows, columns = STAND_IN_SHAPE
    layout = cute.make_layout((rows, columns), stride=(columns, 1))
    tensor = cute.make_tensor(pointer, layout)
    operation = cpasync.CopyBulkTensorTileG2SOp()
    return cpasync.make_tiled_tma_atom(operation, tensor, layout, STAND_IN_SHAPE)[0]


def trace(spec: KvCopySpec, options: str) -> Any:
    """Compile ``spec`` with the DSL's ``options`` and return its compiled function."""
    copy = KvCopy(spec)
    KvCopy.kernel.set_name_prefix(spec.name, remove_cutlass_symbol=True, keep_mangled_name=False)

    @cute.jit
    def host(operand: cute.Pointer, image: Int64, seqlen_k: Int32) -> None:
        maps = (stand_in_map(operand), stand_in_map(operand))
        copy.kernel(maps, image, seqlen_k).launch(
            grid=[1, 1, 1],
            block=[spec.num_threads, 1, 1],
            smem=copy.config.smem_used,
            min_blocks_per_mp=1,
        )

    pointer = make_ptr(cutlass.BFloat16, 0, AddressSpace.gmem, assumed_align=16)
    return cute.compile(host, pointer, Int64(0), 1, options=options)
