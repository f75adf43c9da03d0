"""How a CTA that runs learns which work tile is its next: the answer of cluster launch control.

The grid has a cluster for every work tile. A running one asks to cancel one that has not started
and to do its work instead. The answer, 16 bytes, is written to shared memory by the asynchronous
proxy; it names the first CTA of the cancelled cluster, or says that none is left
(PTX ISA, "clusterlaunchcontrol.try_cancel").

One answer is held at a time. It is asked for when every warp has begun the work tile before, and
the load role, which is ahead of all others, has but few key tiles of it left to load: so the next
one is known when its loads may begin, and no cluster holds for long what another could begin. The
first question is no exception. After an answer that none is left nothing may be asked again.

Both CTAs of a pair get the same answer. The leader asks, once the warps of both have read; each
CTA expects the bytes on a barrier of its own. Warps tell their own CTA that they have read, and the
peer's scheduler passes it on: an arrival in the other CTA that orders memory has a barrier of the
GPU's scope before it, and takes 269 cycles longer on an H200 (``docs/timing_probes.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .barrier_spec import Arrival, BarrierRow
from .pipeline_plan import RolePipelinePlan

ANSWER_BYTES: Final = 16
"""Bytes of an answer, and their alignment."""
MAX_WARPS: Final = 16
"""Warps of a CTA, at most."""
PAIR_BYTES: Final = 8
"""Bytes of a query tile's number and place with stream-K (``plan.launch.stream_k``)."""
STRETCH_BYTES: Final = (MAX_WARPS + 1) * PAIR_BYTES
"""Bytes that tell a CTA its stretch: where each of its warps is in the line, and how long that is.
"""
NUM_ANSWER_BARRIERS: Final = 2
"""Answer arrived; answer read."""
NUM_LOAD_WARPS: Final = 1
"""Warps of a CTA that load."""
ASKED_AHEAD: Final = 2
"""Key tiles left to load when the next work tile may be asked for. The load role is one or two
ahead of the MMAs, so an answer has the time of three."""


@dataclass(frozen=True)
class AnswerPlan:
    """Barriers of the answers of one CTA, or of the pair that it belongs to.

    Attributes:
        num_warps: warps of a CTA that read each answer, the scheduler included.
        cta_group: CTAs that get the same answer.
    """

    num_warps: int
    cta_group: int = 1

    @property
    def first_arrivals(self) -> int:
        """Arrivals for the first work of a CTA, which no answer names: all but the load role's."""
        return self.num_warps - NUM_LOAD_WARPS

    def rows(self) -> list[BarrierRow]:
        """Return the rows of the barrier table: arrived, then read."""
        read = [Arrival("every warp with a role", self.num_warps)]
        if self.cta_group > 1:  # in the leader when all of the peer have read, in the peer at once
            read.append(Arrival("scheduler of the peer", 1))
        return [
            ("answer_full", "next work named", (Arrival("scheduler expect_tx", 1),), "all roles"),
            ("answer_empty", "next may be asked for", tuple(read), "scheduler"),
        ]

    def producer(self, base: int) -> RolePipelinePlan:
        """Return the asking side of barriers ``base`` and ``base + 1``."""
        return RolePipelinePlan(1, True, base, base + 1, self.cta_group)

    def consumer(self, base: int) -> RolePipelinePlan:
        """Return the reading side of the same."""
        return RolePipelinePlan(1, False, base, base + 1, self.cta_group)
