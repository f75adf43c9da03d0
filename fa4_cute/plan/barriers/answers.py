"""How a CTA that runs learns which work tile is its next: the answer of cluster launch control.

The grid has a cluster for every work tile. A running one asks to cancel one that has not started
and to do its work instead. The answer, 16 bytes, is written to shared memory by the asynchronous
proxy; it names the first CTA of the cancelled cluster, or says that none is left
(PTX ISA, "clusterlaunchcontrol.try_cancel").

One answer is held at a time. It is asked for as soon as every warp has read the one before, which
is when the slowest role begins a work tile: so the next one is known long before it is needed, and
no cluster holds more than one work tile that another could begin. After an answer that none is
left nothing may be asked again.

Both CTAs of a pair get the same answer. The leader asks, once the warps of both have read; each
CTA expects the bytes on a barrier of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .barrier_spec import Arrival, BarrierRow
from .pipeline_plan import RolePipelinePlan

ANSWER_BYTES: Final = 16
"""Bytes of an answer, and their alignment."""
NUM_ANSWER_BARRIERS: Final = 2
"""Answer arrived; answer read."""


@dataclass(frozen=True)
class AnswerPlan:
    """Barriers of the answers of one CTA, or of the pair that it belongs to.

    Attributes:
        num_warps: warps of a CTA that read each answer, the asking one included.
        cta_group: CTAs that get the same answer.
    """

    num_warps: int
    cta_group: int = 1

    def rows(self) -> list[BarrierRow]:
        """Return the rows of the barrier table: arrived, then read."""
        warps = Arrival("every warp with a role", self.num_warps * self.cta_group)
        return [
            ("answer_full", "next work named", (Arrival("scheduler expect_tx", 1),), "all roles"),
            ("answer_empty", "next work read", (warps,), "scheduler"),
        ]

    def producer(self, base: int) -> RolePipelinePlan:
        """Return the asking side of barriers ``base`` and ``base + 1``."""
        return RolePipelinePlan(1, True, base, base + 1, self.cta_group)

    def consumer(self, base: int) -> RolePipelinePlan:
        """Return the reading side of the same."""
        return RolePipelinePlan(1, False, base, base + 1, self.cta_group)
