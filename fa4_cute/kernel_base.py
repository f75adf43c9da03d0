"""``AttentionKernel``: what the assembly of both kernels has in common.

Entry, prologue and register budgets. A kernel adds its layout, its context, which role each warp
gets, and how its CTAs leave.

Prologue: warp 0 initialises the barriers, warp 1 allocates Tensor Memory (of a pair: together with
warp 1 of the other CTA), warp 2 prefetches the tensor maps; one barrier, of the CTA or of its
cluster, publishes all three.
"""

from typing import Any

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .device import ids
from .device.memory import shared, tma, tmem
from .device.sync import barriers, pair
from .pipelines import BarrierBlock
from .plan.facts.hardware import WARP_THREADS, SwizzleMode
from .tma import TensorMaps
from .work.sequence import Problem


class AttentionKernel:
    """One compiled attention kernel; ``spec`` holds all static choices."""

    spec: Any
    layout: Any
    columns: Any
    """Columns of Tensor Memory."""

    @property
    def config(self) -> Any:
        """Tiles, staging and memory."""
        return self.spec.config

    @property
    def is_cluster(self) -> bool:
        """Whether CTAs reach into one another's memory."""
        return self.spec.cluster_size > 1

    def context(self, parts: tuple, mbars: Int32, base: Int32) -> Any:
        """Return what the roles share; ``parts`` begin every context, then barriers and TMEM."""
        raise NotImplementedError

    def dispatch(self, ctx: Any, warp: Int32) -> None:
        """Give each warp group its registers and each warp its role."""
        raise NotImplementedError

    def mma(self, ctx: Any) -> None:
        """Run the MMA role."""
        raise NotImplementedError

    def load(self, ctx: Any) -> None:
        """Run the load role."""
        raise NotImplementedError

    def leave_together(self, ctx: Any, warp: Int32) -> None:
        """Meet the other CTAs of the cluster before the end."""
        raise NotImplementedError

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
        base = shared.load_b32(smem + self.layout.tmem_addr_ptr())
        parts = (self.spec, problem, None, maps, smem)
        ctx = self.context(parts, smem + self.layout.mbar_byte_offset, base)
        self.dispatch(ctx, warp)
        if cutlass.const_expr(self.is_cluster):
            self.leave_together(ctx, warp)

    @cute.jit
    def prologue(self, maps: TensorMaps, smem: Int32, warp: Int32):
        """Initialise barriers, allocate Tensor Memory, prefetch the tensor maps."""
        if warp == 0:
            self.initialise_barriers(smem + self.layout.mbar_byte_offset)
        elif warp == 1:
            columns = self.columns.alloc_columns
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

    def publish(self) -> None:
        """Make what the prologue did known to all threads that will use it."""
        if self.is_cluster:
            pair.cluster_barrier()
        else:
            barriers.cta_barrier()

    def set_registers(self, role: str) -> None:
        """Move the calling warp group to the register budget of ``role``."""
        schedule = self.spec.schedule
        barriers.set_max_registers(schedule[role].registers, increase=schedule.increases(role))

    @cute.jit
    def issue(self, ctx: Any, warp: Int32):
        """Run the roles of one warp each, which issue MMAs and loads."""
        schedule = self.spec.schedule
        # One budget for the whole group: setmaxnreg must agree within four warps.
        self.set_registers("mma")
        if warp == schedule["mma"].first_warp:
            self.mma(ctx)
        elif warp == schedule["load"].first_warp:
            self.load(ctx)

    @cute.jit
    def free_pair(self, ctx: Any, warp: Int32):
        """Free the Tensor Memory of a pair, in both CTAs."""
        if warp == 1:
            tmem.dealloc(ctx.tmem, self.columns.alloc_columns, self.config.cta_group())
