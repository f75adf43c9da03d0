"""``SM100MHA2Q``: attention with two Q tiles per CTA, or one.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories. Which warps play which role: ``ATTENTION_SCHEDULE`` of
``fa4_cute.plan.spec.schedule``.

Entry and prologue are those of ``AttentionKernel``. Epilogue: the warps that write O, softmax or
correction, are the last to use Tensor Memory; they meet, and one frees it. The CTAs of a cluster,
which share MMAs or keys, begin and leave together: all their threads meet before and after the
roles. A pair frees Tensor Memory only then, because the MMAs of one CTA write that of both.
"""

from collections.abc import Mapping
from functools import partial

import cutlass
from cutlass import Int32, cute

from .device.lanes import lane_of
from .device.memory import tmem
from .device.sync import barriers, pair
from .kernel_base import AttentionKernel, Role
from .operands.products import descriptor_q
from .pipelines import PairBarriers
from .plan.barriers.chains import CHAINS
from .plan.barriers.named import DEALLOC, DEALLOC_ALONE, NamedBarrier
from .plan.memory.smem_layout import AttentionSMemLayout
from .plan.memory.tmem import AttentionTmem
from .plan.spec.kernel_spec import KernelSpec
from .plan.spec.schedule import SCHEDULER, VALUES
from .roles import correction as correction_role
from .roles import load as load_role
from .roles import mma as mma_role
from .roles import scheduler
from .roles import softmax as softmax_role
from .smem import SM100AttentionSMem
from .tma import TensorMaps
from .work.context import KernelContext
from .work.pair import PairCtaContext
from .work.sequence import Arguments


class SM100MHA2Q(AttentionKernel[KernelContext, SM100AttentionSMem]):
    """One compiled attention kernel; ``spec`` holds all static choices."""

    spec: KernelSpec

    load = staticmethod(load_role.load)
    mma = staticmethod(mma_role.mma)
    softmax = staticmethod(softmax_role.softmax)
    softmax_of_group = staticmethod(softmax_role.softmax_of_group)
    correction = staticmethod(correction_role.correction)
    descriptor_q = staticmethod(descriptor_q)

    def __init__(self, spec: KernelSpec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec
        self.columns = AttentionTmem.of(spec.config)

    @property
    def roles(self) -> Mapping[str, Role[KernelContext]]:
        """What the warps of each role run; the two softmax groups differ in their chain.

        Where they run one copy of the code it finds the chain itself.
        """
        first, second = (partial(self.softmax, chain=chain) for chain in CHAINS)
        shared = self.softmax_of_group
        return {
            "softmax0": shared if self.spec.shares_softmax else first,
            "softmax1": shared if self.spec.shares_softmax else second,
            "correction": self.correction,
            "mma": self.mma,
            "load": self.load,
            VALUES: load_role.load_values_apart,
            SCHEDULER: scheduler.schedule,
        }

    def shared_memory(self, base: Int32) -> SM100AttentionSMem:
        """Return the map of shared memory from its first byte ``base`` on."""
        return SM100AttentionSMem(base, AttentionSMemLayout(self.spec.config))

    def context(
        self, args: Arguments, maps: TensorMaps, smem: SM100AttentionSMem, tmem: Int32
    ) -> KernelContext:
        """Return what the roles share; a pair also knows its rank and the leader's barriers."""
        if self.is_pair:
            block, rank = PairBarriers.at(smem.mbar_base()), pair.cluster_rank()
            return PairCtaContext(self.spec, args, maps, smem, block, tmem, rank)
        if self.spec.holds_base:
            smem = smem.with_base(smem.base + lane_of(tmem))
        return KernelContext(self.spec, args, maps, smem, smem.misc_mbars().block, tmem)

    def after_roles(self, ctx: KernelContext, warp: Int32, names: tuple[str, ...]) -> None:
        """Free Tensor Memory once the output has been read."""
        last, barrier = "softmax0", DEALLOC
        if self.spec.correction_writes:
            last, barrier = "correction", DEALLOC_ALONE
        if last in names and not self.is_pair:
            self.free_tensor_memory(ctx, warp, barrier, last)

    @cute.jit
    def free_tensor_memory(
        self,
        ctx: KernelContext,
        warp: Int32,
        barrier: cutlass.Constexpr[NamedBarrier],
        last: cutlass.Constexpr[str],
    ) -> None:
        """Free Tensor Memory once the groups that write O, of which ``last`` is the first, read it.

        The correction role waits for the last P V of both chains, and all that the softmax reads
        comes before those. In a cluster the publish barrier implies the meeting; it costs little
        and stays, so that freeing does not rest on what another CTA's arrivals mean.
        """
        tmem.fence_before_thread_sync()
        barriers.named_barrier(barrier.number, barrier.threads)
        if warp == self.spec.schedule[last].first_warp:
            tmem.fence_after_thread_sync()
            tmem.dealloc(ctx.tmem, ctx.columns.alloc_columns)
