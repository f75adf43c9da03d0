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
from .device.memory import tma, tmem
from .device.sync import barriers, pair
from .plan.facts.hardware import SwizzleMode
from .smem import Depth512AttentionSMem, SM100AttentionSMem
from .tma import TensorMaps
from .work.sequence import Arguments


class AttentionKernel:
    """One compiled attention kernel; ``spec`` holds all static choices."""

    spec: Any
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

    def shared_memory(self, base: Int32) -> SM100AttentionSMem | Depth512AttentionSMem:
        """Return the map of shared memory from its first byte ``base`` on."""
        raise NotImplementedError

    def context(self, parts: tuple, base: Int32) -> Any:
        """Return what the roles share; ``parts`` begin every context and end with shared memory,
        ``base`` is the address in Tensor Memory."""
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
        args = Arguments(seqlen_q, seqlen_k, num_q_heads, scale_log2, lse, named)
        smem = cute.arch.get_dyn_smem(
            cutlass.Uint8, alignment=SwizzleMode.B128.pattern_bytes
        ).toint()
        smem = self.shared_memory(Int32(smem))
        warp = ids.warp_index()
        self.prologue(maps, smem, warp)
        self.publish()
        # Read once, here: the word is not guarded against a reuse of shared memory later on.
        base = barriers.load_shared_b32(smem.tmem_addr_ptr())
        parts = (self.spec, args, None, maps, smem)
        ctx = self.context(parts, base)
        self.dispatch(ctx, warp)
        if cutlass.const_expr(self.is_cluster):
            self.leave_together(ctx, warp)

    @cute.jit
    def prologue(
        self, maps: TensorMaps, smem: SM100AttentionSMem | Depth512AttentionSMem, warp: Int32
    ):
        """Initialise barriers, allocate Tensor Memory, prefetch the tensor maps."""
        if warp == 0:
            smem.misc_mbars().init(lane_idx=ids.lane_index())
        elif warp == 1:
            columns = self.columns.alloc_columns
            tmem.alloc(smem.tmem_addr_ptr(), columns, self.config.cta_group())
        elif warp == 2:
            for tensor_map in maps.all:
                tma.prefetch_map(tensor_map)

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
