"""``SM100MHA2Q``: attention with two Q tiles per CTA, or one.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories, their registers and their warps. Roles and warps:
``fa4_cute.plan.schedule.ATTENTION_SCHEDULE``.

Prologue: warp 0 initialises the barriers, warp 1 allocates Tensor Memory, warp 2 prefetches the
tensor maps; one CTA barrier publishes all three. Epilogue: the softmax warps are the last to touch
Tensor Memory; they meet, and warp 0 frees it. The CTAs of a cluster, which share MMAs or keys,
begin and leave together: all their threads meet before and after the roles. A pair frees Tensor
Memory only then, because the MMAs of one CTA write that of both.
"""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .device import barriers, ids, pair, tma, tmem
from .pair_work import PairBarriers, PairedContext
from .pipelines import BarrierBlock
from .plan.hardware import WARP_THREADS, SwizzleMode
from .plan.kernel_spec import KernelSpec
from .plan.smem_layout import SM100AttentionSMem
from .plan.tmem import AttentionTmem
from .roles import correction as correction_role
from .roles import load as load_role
from .roles import mma as mma_role
from .roles import softmax as softmax_role
from .sequence import Problem
from .tma import TensorMaps
from .work import KernelContext

DEALLOC_BARRIER = 3
"""Named barrier of the softmax warps before Tensor Memory is freed (1 and 2 store the output)."""


class SM100MHA2Q:
    """One compiled attention kernel; ``spec`` holds all static choices."""

    def __init__(self, spec: KernelSpec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec
        self.config = spec.config
        self.layout = SM100AttentionSMem(spec.config)

    @cute.kernel
    def kernel(
        self,
        maps: tuple,
        lse: Int64,
        seqlen_q: Int32,
        seqlen_k: Int32,
        num_q_heads: Int32,
        scale_log2: Float32,
        extras: tuple,
    ):
        """Entry: parameters in the order of ``spec.params``.

        ``maps`` are the tensor maps of ``TensorMaps``, ``extras`` what the variant and the element
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
        self.publish()
        # Read once, here: the word is not guarded against a reuse of shared memory later on.
        base = barriers.load_shared_b32(smem + self.layout.tmem_addr_ptr())
        parts = (self.spec, problem, None, maps, smem)
        mbars = smem + self.layout.mbar_byte_offset
        if cutlass.const_expr(self.config.pair_cta):
            rank = pair.cluster_rank()
            ctx = PairedContext(*parts, PairBarriers.at(mbars), base, rank)
        else:
            ctx = KernelContext(*parts, BarrierBlock(mbars), base)
        self.dispatch(ctx, warp)
        if cutlass.const_expr(self.is_cluster):
            self.leave_together(ctx, warp)

    @property
    def is_cluster(self) -> bool:
        """Whether CTAs reach into one another's memory."""
        return self.config.cluster_size() > 1

    def publish(self) -> None:
        """Make what the prologue did known to all threads that will use it."""
        if self.is_cluster:
            pair.cluster_barrier()
        else:
            barriers.cta_barrier()

    @cute.jit
    def prologue(self, maps: TensorMaps, smem: Int32, warp: Int32):
        """Initialise barriers, allocate Tensor Memory, prefetch the tensor maps."""
        if warp == 0:
            self.initialise_barriers(smem + self.layout.mbar_byte_offset)
        elif warp == 1:
            columns = AttentionTmem.of(self.config).alloc_columns
            tmem.alloc(smem + self.layout.tmem_addr_ptr(), columns, self.config.cta_group())
        elif warp == 2:
            for tensor_map in maps.all:
                tma.prefetch_map(tensor_map)

    @cute.jit
    def initialise_barriers(self, address: Int32):
        """Lane i initialises barriers i and i + 32."""
        counts = self.config.misc_mbars.counts()
        lane = ids.lane_index()
        for wave in cutlass.range_constexpr(0, len(counts), WARP_THREADS):
            index = lane + wave
            count = Int32(1)
            for mbar in cutlass.range_constexpr(wave, min(wave + WARP_THREADS, len(counts))):
                if cutlass.const_expr(counts[mbar] != 1):
                    count = Int32(cutlass.select_(index == mbar, Int32(counts[mbar]), count))
            if index < len(counts):
                barriers.mbarrier_init(BarrierBlock(address).address_of(index), count)
        barriers.fence_mbarrier_init()

    @cute.jit
    def dispatch(self, ctx: KernelContext, warp: Int32):
        """Give each warp group its registers and each warp its role."""
        schedule = self.spec.schedule
        if warp < schedule["correction"].first_warp:
            self.set_registers("softmax0")
            if warp < schedule["softmax1"].first_warp:
                self.softmax(ctx, 0)
            else:
                self.softmax(ctx, 1)
            if cutlass.const_expr(not self.config.pair_cta):
                self.free_tensor_memory(ctx, warp)
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
    def free_tensor_memory(self, ctx: KernelContext, warp: Int32):
        """Free Tensor Memory once both softmax groups have read their output.

        In a cluster the publish barrier implies the meeting; it costs little and stays, so that
        freeing does not rest on what another CTA's arrivals mean.
        """
        schedule = self.spec.schedule
        threads = schedule["softmax0"].num_threads + schedule["softmax1"].num_threads
        tmem.fence_before_thread_sync()
        barriers.named_barrier(DEALLOC_BARRIER, threads)
        if warp == 0:
            tmem.fence_after_thread_sync()
            tmem.dealloc(ctx.tmem, ctx.columns.alloc_columns)

    @cute.jit
    def leave_together(self, ctx: KernelContext, warp: Int32):
        """Meet the other CTAs; until then any CTA's shared memory may be reached from another.

        So may the Tensor Memory of a pair, which is freed after it.
        """
        if cutlass.const_expr(self.config.pair_cta):
            tmem.fence_before_thread_sync()
        pair.cluster_barrier()
        if cutlass.const_expr(self.config.pair_cta):
            self.free_pair(ctx, warp)

    @cute.jit
    def free_pair(self, ctx: KernelContext, warp: Int32):
        """Free the Tensor Memory of a pair, in both CTAs."""
        if warp == 1:
            tmem.dealloc(ctx.tmem, ctx.columns.alloc_columns, self.config.cta_group())

    def load(self, ctx: KernelContext) -> None:
        """Run the load role."""
        load_role.load(ctx)

    def mma(self, ctx: KernelContext) -> None:
        """Run the MMA role."""
        mma_role.mma(ctx)

    def softmax(self, ctx: KernelContext, chain: int) -> None:
        """Run the softmax role of warp group ``chain``."""
        softmax_role.softmax(ctx, chain)

    def correction(self, ctx: KernelContext) -> None:
        """Run the correction role."""
        correction_role.correction(ctx)

    def descriptor_q(self, ctx: KernelContext, half: int) -> Int32:
        """Return the lower matrix-descriptor word of Q tile ``half`` (the upper is static)."""
        return mma_role.descriptor_q(ctx, half)
