"""The mbarriers of the Hopper kernel.

K and V have a ring each; a slot is freed by every warp that multiplied with it. ``c`` counts the
consumer warp groups, ``s`` the slots of a ring::

    0        Q_full[c]     Q tile of consumer c arrived                       1
    c        K_full[s]     slot arrived                                       1
    c + s    K_empty[s]    slot read                                          4 c
    c + 2 s  V_full[s]     slot arrived                                       1
    c + 3 s  V_empty[s]    slot read                                          4 c
    then     stored[c]     Q of consumer c may be loaded anew (persistent)    4
"""

from __future__ import annotations

from dataclasses import dataclass

from ..facts.hardware import WARPS_PER_GROUP
from .barrier_spec import TMA_BYTES, Arrival, BarrierRow, BarrierTable
from .pipeline_plan import StagedPipelinePlan


@dataclass(frozen=True)
class SM90MBarsLayout(BarrierTable):
    """Indices, counts and pipelines of the barrier block.

    ``fa4_cute.pipelines.SM90MBars`` is the class that acts.

    Args:
        num_kv_stages: slots of either ring.
        num_consumers: warp groups that multiply, each with a Q tile of its own.
        persistent: a CTA takes one query tile after the other.
    """

    num_kv_stages: int
    num_consumers: int
    persistent: bool = False

    def groups(self) -> dict[str, list[BarrierRow]]:
        """Return the rows of every group, in index order: the one place that says where each is."""
        consumers = range(self.num_consumers if self.persistent else 0)
        warps = (Arrival("consumer (a lane of each warp)", WARPS_PER_GROUP),)
        return {
            "Q": [
                (f"Q_full[{i}]", f"Q tile {i} arrived", TMA_BYTES, "consumer")
                for i in range(self.num_consumers)
            ],
            "K": self._ring("K"),
            "V": self._ring("V"),
            "stored": [(f"stored[{i}]", f"Q tile {i} is free", warps, "load") for i in consumers],
        }

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
    def scale_ring(self) -> StagedPipelinePlan:
        """Buffers of key scales with barriers of their own: there are none."""
        return StagedPipelinePlan(0, 1, self.size)

    def _ring(self, name: str) -> list[BarrierRow]:
        slots = range(self.num_kv_stages)
        read = (
            Arrival("consumer (a lane of each warp)", self.num_consumers * WARPS_PER_GROUP),
        )
        return [
            *((f"{name}_full[{i}]", f"{name} {i} arrived", TMA_BYTES, "consumer") for i in slots),
            *((f"{name}_empty[{i}]", f"{name} {i} read", read, "load") for i in slots),
        ]
