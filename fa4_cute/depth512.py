"""``SM100MHADepth512``: attention for head dims above 192 by pairs of CTAs.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories, their registers and their warps. Roles and warps:
``fa4_cute.plan.schedule.DEPTH512_SCHEDULE``.

Prologue: warp 0 initialises the barriers, warp 1 allocates Tensor Memory together with warp 1 of
the other CTA, warp 2 prefetches the tensor maps; one cluster barrier publishes all three to both
CTAs. Epilogue: every thread of both CTAs meets at a second one. Until then either CTA's shared and
Tensor Memory may still be reached from the other: MMAs and commits by the leader, arrivals and TMA
bytes by the peer.
"""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .depth512_work import PairContext
from .device import barriers, ids, pair, tma, tmem
from .pair_work import PairBarriers
from .plan.depth512_config import Depth512Config
from .plan.depth512_mbars import Depth512MBars
from .plan.depth512_smem import Depth512AttentionSMem
from .plan.depth512_spec import Depth512Spec
from .plan.hardware import MBARRIER_BYTES, SwizzleMode
from .plan.tmem import Depth512Tmem
from .roles import depth512_correction, depth512_load, depth512_mma, depth512_softmax
from .sequence import Problem
from .tma import TensorMaps

__all__ = ["Depth512AttentionSMem", "Depth512Config", "Depth512MBars", "SM100MHADepth512"]


class SM100MHADepth512:
    """One compiled attention kernel; ``spec`` holds all static choices."""

    def __init__(self, spec: Depth512Spec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec
        self.config = spec.config
        self.layout = Depth512AttentionSMem(spec.config)

    @cute.kernel
    def kernel(
        self,
        maps: tuple[cute.CopyAtom, cute.CopyAtom, cute.CopyAtom, cute.CopyAtom],
        lse: Int64,
        seqlen_q: Int32,
        seqlen_k: Int32,
        num_q_heads: Int32,
        scale_log2: Float32,
        extras: tuple,
    ):
        """Entry: parameters in the order of ``spec.params``.

        ``maps`` are the tensor maps of Q, K, V and O, ``extras`` what the variant and the element
        type add.
        """
        maps = TensorMaps(*[tma.tensor_map_address(tensor_map) for tensor_map in maps])
        names = [param.name for param in self.spec.extra_params]
        named = dict(zip(names, extras, strict=True))
        problem = Problem(seqlen_q, seqlen_k, num_q_heads, scale_log2, lse, named)
        smem = cute.arch.get_dyn_smem(
            cutlass.Uint8, alignment=SwizzleMode.B128.pattern_bytes
        ).toint()
        smem = Int32(smem)
        warp = ids.warp_index()
        self.prologue(maps, smem, warp)
        pair.cluster_barrier()
        # Read once, here: the word is not guarded against a reuse of shared memory later on.
        base = barriers.load_shared_b32(smem + self.layout.tmem_addr_ptr())
        block = PairBarriers.at(smem + self.layout.mbar_base())
        rank = pair.cluster_rank()
        ctx = PairContext(self.spec, problem, None, maps, smem, block, base, rank)
        self.dispatch(ctx, warp)
        self.leave_together(ctx, warp)

    @cute.jit
    def prologue(self, maps: TensorMaps, smem: Int32, warp: Int32):
        """Initialise barriers, allocate Tensor Memory, prefetch the tensor maps."""
        if warp == 0:
            self.initialise_barriers(smem + self.layout.mbar_base())
        elif warp == 1:
            columns = Depth512Tmem.of(self.config).alloc_columns
            tmem.alloc(smem + self.layout.tmem_addr_ptr(), columns, self.config.cta_group())
        elif warp == 2:
            for tensor_map in (maps.q, maps.k, maps.v, maps.o):
                tma.prefetch_map(tensor_map)

    @cute.jit
    def initialise_barriers(self, address: Int32):
        """Lane i initialises barrier i: one wave, which the plan guarantees."""
        counts = self.config.misc_mbars.counts()
        lane = ids.lane_index()
        count = Int32(1)
        for mbar in cutlass.range_constexpr(len(counts)):
            if cutlass.const_expr(counts[mbar] != 1):
                count = Int32(cutlass.select_(lane == mbar, Int32(counts[mbar]), count))
        if lane < len(counts):
            barriers.mbarrier_init(address + MBARRIER_BYTES * lane, count)
        barriers.fence_mbarrier_init()

    @cute.jit
    def dispatch(self, ctx: PairContext, warp: Int32):
        """Give each warp group its registers and each warp its role."""
        schedule = self.spec.schedule
        if warp < schedule["correction"].first_warp:
            self.set_registers("softmax")
            self.softmax(ctx)
        elif warp < schedule["mma"].first_warp:
            self.set_registers("correction")
            self.correction(ctx)
        else:
            # One budget for the whole group: setmaxnreg must agree within four warps.
            self.set_registers("mma")
            if warp == schedule["mma"].first_warp:
                self.mma(ctx)
            elif warp == schedule["load"].first_warp:
                self.load(ctx)

    def set_registers(self, role: str) -> None:
        """Move the calling warp group to the register budget of ``role``."""
        schedule = self.spec.schedule
        barriers.set_max_registers(schedule[role].registers, increase=schedule.increases(role))

    @cute.jit
    def leave_together(self, ctx: PairContext, warp: Int32):
        """Meet the other CTA, then free Tensor Memory in both."""
        tmem.fence_before_thread_sync()
        pair.cluster_barrier()
        if warp == 1:
            tmem.dealloc(ctx.tmem, ctx.columns.alloc_columns, self.config.cta_group())

    def load(self, ctx: PairContext) -> None:
        """Run the load role."""
        depth512_load.load(ctx)

    def mma(self, ctx: PairContext) -> None:
        """Run the MMA role."""
        depth512_mma.mma(ctx)

    def softmax(self, ctx: PairContext) -> None:
        """Run the softmax role."""
        depth512_softmax.softmax(ctx)

    def correction(self, ctx: PairContext) -> None:
        """Run the correction role."""
        depth512_correction.correction(ctx)
