"""What every role is given: the work tile of the CTA and the memories it works in.

Decoded once, before the roles part: position, head, batch and the number of key tiles. All roles
count the same key tiles, otherwise their barriers would fall out of step.
"""

from dataclasses import dataclass, replace

import cutlass
from cutlass import Float32, Int32, Int64

from .device import ids
from .pipelines import BarrierBlock
from .plan.dtypes import DType
from .plan.hardware import (
    TMEM_LANE_SHIFT,
    WARP_GROUP_THREADS,
    WARP_THREADS,
    WARPS_PER_GROUP,
)
from .plan.kernel_spec import KernelSpec
from .plan.smem_layout import SM100AttentionSMem
from .plan.tmem import AttentionTmem
from .tma import TensorMaps


@dataclass(frozen=True)
class Problem:
    """Run-time sizes of the call; ``lse`` is the address of a (batch, heads, seqlen_q) array.

    ``value_scale`` multiplies O; None where the kernel has no such parameter.
    """

    seqlen_q: Int32
    seqlen_k: Int32
    num_q_heads: Int32
    scale_log2: Float32
    lse: Int64
    value_scale: Float32 | None = None

    @classmethod
    def of(
        cls, seqlen_q: Int32, seqlen_k: Int32, num_q_heads: Int32, lse: Int64, scales: tuple
    ) -> "Problem":
        """Return the sizes with ``scales``: ``scale_log2`` and, with fp8 operands, O's."""
        scale_log2, *value_scale = scales
        return cls(seqlen_q, seqlen_k, num_q_heads, scale_log2, lse, *value_scale)


@dataclass(frozen=True)
class WorkTile:
    """One Q tile pair of one head: the CTA's share of the output.

    Attributes:
        position: first sequence position of the tile.
        head: head of the Q map: a query head, or a K/V head when the group is fused into rows.
        kv_head: head of the K and V maps.
        batch: batch entry.
        num_key_tiles: key tiles that some row of the tile sees; may be 0.
    """

    position: Int32
    head: Int32
    kv_head: Int32
    batch: Int32
    num_key_tiles: Int32


@dataclass(frozen=True)
class KernelContext:
    """Static specification, memories and work of one CTA."""

    spec: KernelSpec
    problem: Problem
    work: WorkTile
    maps: TensorMaps
    smem: Int32
    barriers: BarrierBlock
    tmem: Int32

    def decode_again(self) -> "KernelContext":
        """Return the same context with the work tile decoded anew.

        After a long loop this costs a few instructions; carrying the tile costs registers.
        """
        work = decode_work(self.spec, self.problem)
        return replace(self, work=replace(work, num_key_tiles=self.work.num_key_tiles))

    @property
    def layout(self) -> SM100AttentionSMem:
        """Byte offsets in shared memory."""
        return SM100AttentionSMem(self.spec.config)

    @property
    def columns(self) -> AttentionTmem:
        """Named columns of Tensor Memory."""
        return AttentionTmem.of(self.spec.config)


def decode_work(spec: KernelSpec, problem: Problem) -> WorkTile:
    """Return the tile of this CTA; causal grids run the longest tiles first."""
    tile, head, batch = ids.block_index()
    if spec.causal:
        tile = ids.grid_size_x() - 1 - tile
    config = spec.config
    position = tile * config.PairBM_eff()
    kv_head = head if config.fuse_gqa else head // config.group
    visible = visible_keys(spec, problem, position + (config.PairBM_eff() - 1))
    num_key_tiles = (visible + (config.BN - 1)) // config.BN
    return WorkTile(position, head, kv_head, batch, num_key_tiles)


def visible_keys(spec: KernelSpec, problem: Problem, position: Int32) -> Int32:
    """Return how many leading keys ``position`` sees: all, or up to the bottom-right diagonal."""
    if not spec.causal:
        return problem.seqlen_k
    diagonal = position + 1 + (problem.seqlen_k - problem.seqlen_q)
    return cutlass.max(cutlass.min(diagonal, problem.seqlen_k), Int32(0))


def row_in_group() -> Int32:
    """Return the thread's index within its warp group: the row, and the TMEM lane, it owns."""
    return ids.thread_index() % WARP_GROUP_THREADS


def lane_address(tmem: Int32, column: int) -> Int32:
    """Return the TMEM address of ``column`` in the lanes that the calling warp may touch."""
    warp = ids.warp_index() % WARPS_PER_GROUP
    return tmem + (warp * WARP_THREADS << TMEM_LANE_SHIFT) + column


def factor_address(ctx: KernelContext, chain: int) -> Int32:
    """Return the shared address of the calling row's correction factor of ``chain``."""
    row = row_in_group() + chain * WARP_GROUP_THREADS
    return ctx.smem + ctx.layout.correction_smem() + row * DType.FP32.size
