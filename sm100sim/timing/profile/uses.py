"""Achieved over peak: how much of what an SM can do a kernel used, resource by resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...contract import clock
from ..records import Action, DynamicEvent
from .detail import Detail, Floats
from .path import WORKS

MMA_WORK: Final = 256
"""Rows times columns of a tcgen05.mma that an SM works off in a cycle, 32 bytes of K each."""
WGMMA_WORK: Final = 128
"""The same of a wgmma."""
FULL: Final = 0.6
"""Share from which a resource is called what limits a kernel."""
LATENCY: Final = "latency"
"""What limits a kernel that fills no resource: that each waits for another."""

SERVERS: Final = {
    "issue": ("issue",),
    "FMA": ("fma heavy", "fma lite"),
    "ALU": ("alu",),
    "MUFU": ("mufu",),
    "FP64": ("fp64",),
    "uniform": ("uniform",),
    "TMEM": ("tmem",),
}
"""Resource of a sub-partition -> its servers; of several the busiest counts."""
SHARED_SERVERS: Final = {
    "tensor": "tensor",
    "shared memory": "port",
    "shared requests": "request",
    "TMA loads": "copy",
    "TMA stores": "store",
    "L2 share": "memory",
}
"""Resource of an SM -> its server."""


RESOURCES: Final = (*SERVERS, *SHARED_SERVERS)
"""All resources."""


@dataclass(frozen=True)
class Use:
    """How much a resource did.

    Attributes:
        name: e.g. "MUFU".
        share: cycles in which it worked over all, on average of its instances.
        fullest: the same of the instance that worked most.
    """

    name: str
    share: float
    fullest: float


def uses_of(detail: Detail) -> tuple[Use, ...]:
    """Return the use of each resource, the fullest first; those that did nothing are left out.

    Work counts as far as it is done when the last warp ends.
    """
    cycles = detail.cycles
    found = [_use(name, _busiest(detail, SERVERS[name]), cycles) for name in SERVERS]
    for name, server in SHARED_SERVERS.items():
        share = (detail.shared[server] - _after_the_end(detail, server)) / cycles
        found.append(Use(name, min(share, 1), min(share, 1)))
    return tuple(sorted((u for u in found if u.fullest > 0), key=lambda u: -u.fullest))


def _after_the_end(detail: Detail, server: str) -> float:
    """Cycles, per SM, of work that nobody waited for and that outlives the last warp."""
    if server not in WORKS or server == "copy":  # a record of a copy has its bytes' way, too
        return 0.0
    works = detail.works[detail.works["what"] == clock.SHARED_UNITS.index(server)]
    late = works["end"] - np.maximum(works["start"], detail.cycles)
    ranks = 1 + max(stream.rank for stream in detail.trace.streams)
    total = 0.0
    for step, cycles in zip(works["step"].tolist(), late.tolist(), strict=True):
        event = detail.event(step) if cycles > 0 else None
        sms = 2 if event is not None and "pair" in event.detail else 1
        total += max(cycles, 0) * sms
    return total / ranks


def _busiest(detail: Detail, servers: tuple[str, ...]) -> Floats:
    return max((detail.parts[server] for server in servers), key=lambda busy: float(busy.sum()))


def _use(name: str, busy: Floats, cycles: float) -> Use:
    done = np.minimum(busy / cycles, 1)
    return Use(name, float(done.mean()), float(done.max()))


def tensor_arithmetic(detail: Detail) -> float:
    """Return achieved over peak arithmetic of the tensor cores: what of their time was needed.

    A tensor core is also busy with operands that come too slowly, and with fewer rows than it has.
    """
    events, total = detail.trace.events, 0.0
    for stream in detail.trace.streams:
        for number in stream.event[stream.event >= 0].tolist():
            total += _work(events[number])
    ranks = 1 + max(stream.rank for stream in detail.trace.streams)
    return total * detail.copies / ranks / detail.cycles


def _work(event: DynamicEvent) -> float:
    """Cycles of all SMs together that a product needs at the best rate."""
    if event.kind is Action.MMA:
        return event.shape[0] * event.shape[1] / MMA_WORK
    if event.kind is Action.WGMMA:  # each of four warps has the event
        return event.shape[0] * event.shape[1] / WGMMA_WORK / 4
    return 0


def limit_of(uses: tuple[Use, ...]) -> str:
    """Return the resource that limits a kernel, or `LATENCY`."""
    return uses[0].name if uses and uses[0].fullest >= FULL else LATENCY
