"""``SM100MHA2Q``: attention with two Q tiles per CTA, or one.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories, their registers and their warps. Roles and warps:
``fa4_cute.plan.spec.schedule.ATTENTION_SCHEDULE``.

Entry and prologue are those of ``AttentionKernel``. Epilogue: the softmax warps are the last to use
Tensor Memory; they meet, and warp 0 frees it. The CTAs of a cluster, which share MMAs or keys,
begin and leave together: all their threads meet before and after the roles. A pair frees Tensor
Memory only then, because the MMAs of one CTA write that of both.
"""

import cutlass
from cutlass import Int32, cute

from .device.memory import tmem
from .device.sync import barriers, pair
from .kernel_base import AttentionKernel
from .pipelines import PairBarriers
from .plan.memory.smem_layout import AttentionSMemLayout
from .plan.memory.tmem import AttentionTmem
from .plan.spec.kernel_spec import KernelSpec
from .roles import correction as correction_role
from .roles import load as load_role
from .roles import mma as mma_role
from .roles import softmax as softmax_role
from .smem import SM100AttentionSMem
from .work.context import KernelContext
from .work.pair import PairCtaContext

DEALLOC_BARRIER = 3
"""Named barrier of the softmax warps before Tensor Memory is freed (1 and 2 store the output)."""


class SM100MHA2Q(AttentionKernel):
    """One compiled attention kernel; ``spec`` holds all static choices."""

    def __init__(self, spec: KernelSpec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec
        self.columns = AttentionTmem.of(spec.config)

    def shared_memory(self, base: Int32) -> SM100AttentionSMem:
        """Return the map of shared memory from its first byte ``base`` on."""
        return SM100AttentionSMem(base, AttentionSMemLayout(self.config))

    def context(self, parts: tuple, base: Int32) -> KernelContext:
        """Return what the roles share; a pair also knows its rank and the leader's barriers."""
        smem = parts[-1]
        if self.config.pair_cta:
            rank = pair.cluster_rank()
            return PairCtaContext(*parts, PairBarriers.at(smem.mbar_base()), base, rank)
        return KernelContext(*parts, smem.misc_mbars().block, base)

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
            self.issue(ctx, warp)

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
