"""``SM100MHADepth512``: attention for head dims above 192 by pairs of CTAs.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories. Which warps play which role: ``DEPTH512_SCHEDULE`` of
``fa4_cute.plan.spec.schedule``.

Entry and prologue are those of ``AttentionKernel``. Epilogue: every thread of both CTAs meets at a
second cluster barrier. Until then either CTA's shared and Tensor Memory may still be reached from
the other: MMAs and commits by the leader, arrivals and TMA bytes by the peer.
"""

from collections.abc import Mapping

from cutlass import Int32

from .device.sync import pair
from .kernel_base import AttentionKernel, Role
from .pipelines import Depth512MBars, PairBarriers
from .plan.config.depth512_config import Depth512Config
from .plan.memory.depth512_smem import Depth512SMemLayout
from .plan.memory.tmem import Depth512Tmem
from .plan.spec.depth512_spec import Depth512Spec
from .plan.spec.schedule import SCHEDULER, VALUES
from .roles import depth512_correction, depth512_load, depth512_mma, depth512_softmax, scheduler
from .smem import Depth512AttentionSMem
from .tma import TensorMaps
from .work.depth512 import Depth512Context
from .work.sequence import Arguments

__all__ = ["Depth512AttentionSMem", "Depth512Config", "Depth512MBars", "SM100MHADepth512"]


class SM100MHADepth512(AttentionKernel[Depth512Context, Depth512AttentionSMem]):
    """One compiled attention kernel; ``spec`` holds all static choices."""

    spec: Depth512Spec

    def __init__(self, spec: Depth512Spec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec
        self.columns = Depth512Tmem.of(spec.config)

    @property
    def roles(self) -> Mapping[str, Role[Depth512Context]]:
        """What the warps of each role run."""
        return {
            "softmax": depth512_softmax.softmax,
            "correction": depth512_correction.correction,
            "mma": depth512_mma.mma,
            "load": depth512_load.load,
            VALUES: depth512_load.load_values_apart,
            SCHEDULER: scheduler.schedule,
        }

    def shared_memory(self, base: Int32) -> Depth512AttentionSMem:
        """Return the map of shared memory from its first byte ``base`` on."""
        return Depth512AttentionSMem(base, Depth512SMemLayout(self.spec.config))

    def context(
        self, args: Arguments, maps: TensorMaps, smem: Depth512AttentionSMem, tmem: Int32
    ) -> Depth512Context:
        """Return what the roles share, with the leader's barriers and the rank in the pair."""
        block = PairBarriers.at(smem.mbar_base())
        return Depth512Context(self.spec, args, maps, smem, block, tmem, pair.cluster_rank())
