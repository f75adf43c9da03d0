"""``AttentionKernel``: what the assembly of all kernels has in common.

Entry, prologue, register budgets, the dispatch of warps to roles, and how CTAs leave. A kernel adds
its layout, its context and its roles.

Prologue: warp 0 initialises the barriers, warp 1 allocates Tensor Memory (of a pair: together with
warp 1 of the other CTA), warp 2 prefetches the tensor maps, and with stream-K warp 3 finds what the
CTA takes; one barrier, of the CTA or of its cluster, publishes all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import cutlass
from cutlass import Float32, Int32, Int64, cute

from .device import ids
from .device.memory import shared, tma, tmem
from .device.sync import barriers, pair
from .plan.config.config import FA4Config
from .plan.config.depth512_config import Depth512Config
from .plan.config.sm90_config import SM90Config
from .plan.facts.hardware import SwizzleMode
from .plan.memory.tmem import TmemMap
from .plan.spec.attention_spec import AttentionSpec
from .plan.spec.schedule import WarpRole
from .smem import Depth512AttentionSMem, SM90AttentionSMem, SM100AttentionSMem
from .tma import TensorMaps
from .work.context import AttentionContext, TmemContext
from .work.sequence import Arguments
from .work.stream_k import Stretch, keep_stretch

Context = TypeVar("Context", bound=AttentionContext)
Memory = TypeVar("Memory", SM100AttentionSMem, Depth512AttentionSMem, SM90AttentionSMem)
Role = Callable[[Context], None]


class AttentionKernel(ABC, Generic[Context, Memory]):
    """One compiled attention kernel; ``spec`` holds all static choices.

    A kernel names its roles, and the schedule says which warps play them with how many registers.
    """

    spec: AttentionSpec
    columns: TmemMap | None = None
    """Columns of Tensor Memory; None on architectures that have none."""

    @property
    @abstractmethod
    def roles(self) -> Mapping[str, Role[Context]]:
        """What the warps of each role of the schedule run, by its name."""

    @abstractmethod
    def shared_memory(self, base: Int32) -> Memory:
        """Return the map of shared memory from its first byte ``base`` on."""

    @abstractmethod
    def context(
        self, args: Arguments, maps: TensorMaps, smem: Memory, tmem: Int32 | None
    ) -> Context:
        """Return what the roles share; ``tmem`` is the address in Tensor Memory, if any."""

    def after_roles(self, ctx: Context, warp: Int32, names: tuple[str, ...]) -> None:
        """Do what the warps of the roles ``names`` do together at their end: here nothing."""

    @property
    def config(self) -> FA4Config | Depth512Config | SM90Config:
        """Tiles, staging and memory."""
        return self.spec.config

    @property
    def is_pair(self) -> bool:
        """Whether two CTAs share every MMA, and so write the Tensor Memory of both."""
        return self.config.cta_group() > 1

    @property
    def is_cluster(self) -> bool:
        """Whether CTAs reach into one another's memory."""
        return self.spec.cluster_size > 1

    @cute.kernel
    def kernel(
        self,
        maps: tuple[Any, ...],
        lse: Int64,
        seqlen_q: Int32,
        seqlen_k: Int32,
        num_q_heads: Int32,
        scale_log2: Float32,
        extras: tuple[Any, ...],
    ) -> None:
        """Entry: parameters in the order of ``spec.params``.

        ``maps`` are the tensor maps of ``TensorMaps``, ``extras`` what the variant and the element
        type add.
        """
        operands = TensorMaps(*[tma.tensor_map_address(tensor_map) for tensor_map in maps])
        filled = self.spec.extras.filled(extras)
        args = Arguments(seqlen_q, seqlen_k, num_q_heads, scale_log2, lse, filled)
        first_byte = cute.arch.get_dyn_smem(
            cutlass.Uint8, alignment=SwizzleMode.B128.pattern_bytes
        ).toint()
        smem = self.shared_memory(Int32(first_byte))
        warp = ids.warp_index()
        self.prologue(args, operands, smem, warp)
        self.publish()
        # Read once, here: the word is not guarded against a reuse of shared memory later on.
        base = None if self.columns is None else shared.load_b32(smem.tmem_addr_ptr())
        ctx = self.context(args, operands, smem, base)
        self.dispatch(ctx, warp, self.spec.schedule.groups)
        if cutlass.const_expr(self.is_cluster):
            self.leave_together(ctx, warp)

    @cute.jit
    def prologue(self, args: Arguments, maps: TensorMaps, smem: Memory, warp: Int32) -> None:
        """Initialise barriers, allocate Tensor Memory, prefetch the tensor maps."""
        if warp == 0:
            smem.misc_mbars().init(lane_idx=ids.lane_index())
        elif warp == 1:
            self.allocate(smem)
        elif warp == 2:
            for tensor_map in maps.all:
                tma.prefetch_map(tensor_map)
        if cutlass.const_expr(self.spec.variant.streams_keys):
            if warp == 3:
                keep_stretch(self.spec, args, Stretch(smem.stretch_smem()))

    def allocate(self, smem: Memory) -> None:
        """Allocate Tensor Memory where there is some. One warp."""
        if self.columns is not None:
            columns = self.columns.alloc_columns
            tmem.alloc(smem.tmem_addr_ptr(), columns, self.config.cta_group())

    def publish(self) -> None:
        """Make what the prologue did known to all threads that will use it."""
        # Only mbarriers are another CTA's business, and a fence of their own releases those.
        if self.is_cluster:
            pair.cluster_arrive()
        barriers.cta_barrier()
        if self.is_cluster:
            pair.cluster_wait()

    def set_registers(self, role: str) -> None:
        """Move the calling warp group to the register budget of ``role``."""
        schedule = self.spec.schedule
        barriers.set_max_registers(schedule[role].registers, increase=schedule.increases(role))

    @cute.jit
    def dispatch(self, ctx: Context, warp: Int32, groups: cutlass.Constexpr) -> None:
        """Give the first of the warp ``groups`` its registers and roles, then the others theirs."""
        if cutlass.const_expr(len(groups) == 1):
            self.run_group(ctx, warp, groups[0])
        else:
            if warp < groups[1][0].first_warp:
                self.run_group(ctx, warp, groups[0])
            else:
                self.dispatch(ctx, warp, groups[1:])

    def run_group(self, ctx: Context, warp: Int32, group: tuple[WarpRole, ...]) -> None:
        """Run the roles of warps that set their registers together: setmaxnreg must agree within
        four warps."""
        self.set_registers(group[0].name)
        self.run_roles(ctx, warp, group)
        self.after_roles(ctx, warp, tuple(role.name for role in group))

    @cute.jit
    def run_roles(self, ctx: Context, warp: Int32, group: cutlass.Constexpr) -> None:
        """Run the role of ``group`` that ``warp`` plays, if any; what all play stands once."""
        roles = self.roles
        role = roles[group[0].name]
        if cutlass.const_expr(group[0].num_warps == 1):
            if warp == group[0].first_warp:
                role(ctx)
            elif cutlass.const_expr(len(group) > 1):
                self.run_roles(ctx, warp, group[1:])
        elif cutlass.const_expr(all(roles[other.name] is role for other in group)):
            role(ctx)
        else:
            if warp < group[1].first_warp:
                role(ctx)
            else:
                self.run_roles(ctx, warp, group[1:])

    @cute.jit
    def leave_together(self, ctx: Context, warp: Int32) -> None:
        """Meet the other CTAs of the cluster, of which any may reach another's memory until then.

        So may the MMAs of a pair with its Tensor Memory, which is freed after it.
        """
        if cutlass.const_expr(self.is_pair):
            tmem.fence_before_thread_sync()
        # A pair's memory is not read by the other CTA's threads, but by MMAs that have ended.
        pair.cluster_arrive(release=not self.is_pair)
        pair.cluster_wait()
        if cutlass.const_expr(self.is_pair):
            if warp == 1:
                self.deallocate(ctx)

    def deallocate(self, ctx: Context) -> None:
        """Free Tensor Memory where there is some. One warp."""
        if self.columns is not None and isinstance(ctx, TmemContext):
            tmem.dealloc(ctx.allocated(), self.columns.alloc_columns, self.config.cta_group())
