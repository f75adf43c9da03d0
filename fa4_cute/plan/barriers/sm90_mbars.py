"""The mbarriers of the Hopper kernel.

K and V have a ring each; a slot is freed by every warp that multiplied with it. ``c`` counts the
consumer warp groups, ``s`` the slots of a ring::

    0        Q_full[c]     Q tile of consumer c arrived                       1
    c        K_full[s]     slot arrived                                       1
    c + s    K_empty[s]    slot read                                          4 c
    c + 2 s  V_full[s]     slot arrived                                       1
    c + 3 s  V_empty[s]    slot read                                          4 c
    then     stored[c]     Q of consumer c may be loaded anew (persistent)    4
    then     raw_full[r]   slot of V as it is loaded arrived (fp8)            1
    .. + r   raw_empty[r]  slot read                                          3
    then     bias_full[s]  biases beside a slot of K arrived                  32 w
    .. + s   bias_empty[s] biases read                                        4 c

With fp8 operands the V that is multiplied is written by the three warps that transpose it, each of
which arrives on ``V_full``. ``w`` warps copy biases of 16 bits: a lane arrives when its copies do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..facts.hardware import WARP_THREADS, WARPS_PER_GROUP
from .barrier_spec import TMA_BYTES, Arrival, BarrierRow, BarrierTable
from .pipeline_plan import StagedPipelinePlan

TRANSPOSING_WARPS: Final = WARPS_PER_GROUP - 1
"""Warps that transpose V: those of its warp group beside the one that loads."""


@dataclass(frozen=True)
class SM90MBarsLayout(BarrierTable):
    """Indices, counts and pipelines of the barrier block.

    ``fa4_cute.pipelines.SM90MBars`` is the class that acts.

    Args:
        num_kv_stages: slots of either ring.
        num_consumers: warp groups that multiply, each with a Q tile of its own.
        persistent: a CTA takes one query tile after the other.
        num_raw_stages: slots of V as it is loaded, where it is transposed before it is multiplied.
        num_bias_warps: warps that copy biases to shared memory, 0 where nobody does.
    """

    num_kv_stages: int
    num_consumers: int
    persistent: bool = False
    num_raw_stages: int = 0
    num_bias_warps: int = 0

    def groups(self) -> dict[str, list[BarrierRow]]:
        """Return the rows of every group, in index order: the one place that says where each is."""
        consumers = range(self.num_consumers if self.persistent else 0)
        warps = (Arrival("consumer (a lane of each warp)", WARPS_PER_GROUP),)
        transposed = (_TRANSPOSED,) if self.num_raw_stages else ()
        return {
            "Q": [
                (f"Q_full[{i}]", f"Q tile {i} arrived", TMA_BYTES, "consumer")
                for i in range(self.num_consumers)
            ],
            "K": self._ring("K", self.num_kv_stages, TMA_BYTES, self._multiplied),
            "V": self._ring("V", self.num_kv_stages, transposed or TMA_BYTES, self._multiplied),
            "stored": [(f"stored[{i}]", f"Q tile {i} is free", warps, "load") for i in consumers],
            "raw": self._ring("raw", self.num_raw_stages, TMA_BYTES, transposed),
            "bias": self._ring("bias", self.num_bias_stages, self._copied, self._multiplied),
        }

    @property
    def one_lane_initialises(self) -> bool:
        """Whether one elected lane initialises all barriers, and not each lane one.

        Not with fp8 operands: ptxas would make the products of some kernels wait for one another.
        """
        return self.num_raw_stages == 0

    def query(self, consumer: int) -> int:
        """Barrier that says that the Q tile of ``consumer`` has arrived."""
        return self.offset("Q") + consumer

    def stored(self, chain: int) -> int:
        """Barrier that says that the Q tile of consumer ``chain`` may be loaded anew.

        Its last product of the query tile is over; O is not staged there.
        """
        return self.offset("stored") + chain

    @property
    def k_ring(self) -> StagedPipelinePlan:
        """Barriers of the K ring."""
        return StagedPipelinePlan(self.num_kv_stages, 1, self.offset("K"))

    @property
    def v_ring(self) -> StagedPipelinePlan:
        """Barriers of the V ring."""
        return StagedPipelinePlan(self.num_kv_stages, 1, self.offset("V"))

    @property
    def raw_ring(self) -> StagedPipelinePlan:
        """Barriers of the ring of V as it is loaded, before it is transposed."""
        return StagedPipelinePlan(self.num_raw_stages, 1, self.offset("raw"))

    @property
    def num_bias_stages(self) -> int:
        """Slots of biases: one beside each of K, or none."""
        return self.num_kv_stages if self.num_bias_warps else 0

    @property
    def bias_ring(self) -> StagedPipelinePlan:
        """Barriers of the biases beside the K ring."""
        return StagedPipelinePlan(self.num_bias_stages, 1, self.offset("bias"))

    @property
    def scale_ring(self) -> StagedPipelinePlan:
        """Buffers of key scales with barriers of their own: there are none."""
        return StagedPipelinePlan(0, 1, self.size)

    @property
    def _multiplied(self) -> tuple[Arrival, ...]:
        count = self.num_consumers * WARPS_PER_GROUP
        return (Arrival("consumer (a lane of each warp)", count),)

    @property
    def _copied(self) -> tuple[Arrival, ...]:
        return (Arrival("biases (copies of a lane)", self.num_bias_warps * WARP_THREADS),)

    def _ring(
        self, name: str, num_slots: int, full: tuple[Arrival, ...], empty: tuple[Arrival, ...]
    ) -> list[BarrierRow]:
        slots, transposes = range(num_slots), _TRANSPOSED in full
        fills = "transpose" if transposes else "biases" if name == "bias" else "load"
        reads = "transpose" if _TRANSPOSED in empty else "consumer"
        return [
            *((f"{name}_full[{i}]", f"{name} {i} arrived", full, reads) for i in slots),
            *((f"{name}_empty[{i}]", f"{name} {i} read", empty, fills) for i in slots),
        ]


_TRANSPOSED = Arrival("transpose (a lane of each warp)", TRANSPOSING_WARPS)
