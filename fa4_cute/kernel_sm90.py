"""``SM90MHA``: attention on Hopper, one to three consumer warp groups with 64 query rows each.

Assembles only: the plan gives every offset and count, each role lives in ``fa4_cute.roles``, and
here they get their memories. Which warps play which role: ``sm90_schedule`` of
``fa4_cute.plan.spec.sm90_spec``. There is no Tensor Memory: accumulators are registers, so nothing
is allocated, and a warp leaves when its work is done.
"""

from collections.abc import Mapping

from cutlass import Int32

from .kernel_base import AttentionKernel, Role
from .plan.memory.sm90_smem import SM90SMemLayout
from .plan.spec.schedule import BIASES, TRANSPOSE, VALUES
from .plan.spec.sm90_spec import SM90Spec
from .roles import sm90_biases, sm90_consumer, sm90_load, sm90_transpose
from .smem import SM90AttentionSMem
from .tma import TensorMaps
from .work.sequence import Arguments
from .work.sm90 import SM90Context


class SM90MHA(AttentionKernel[SM90Context, SM90AttentionSMem]):
    """One compiled attention kernel; ``spec`` holds all static choices."""

    spec: SM90Spec

    def __init__(self, spec: SM90Spec) -> None:
        """Take the static choices; everything else follows from them."""
        self.spec = spec

    @property
    def roles(self) -> Mapping[str, Role[SM90Context]]:
        """What the warps of each role run."""
        return {
            "consumer": sm90_consumer.consume,
            "load": sm90_load.load,
            VALUES: sm90_load.load_values_apart,
            TRANSPOSE: sm90_transpose.transpose,
            BIASES: sm90_biases.copy,
        }

    def shared_memory(self, base: Int32) -> SM90AttentionSMem:
        """Return the map of shared memory from its first byte ``base`` on."""
        return SM90AttentionSMem(base, SM90SMemLayout(self.spec.config))

    def context(
        self, args: Arguments, maps: TensorMaps, smem: SM90AttentionSMem, tmem: Int32 | None
    ) -> SM90Context:
        """Return what the roles share."""
        return SM90Context(self.spec, args, maps, smem, smem.misc_mbars().block)
