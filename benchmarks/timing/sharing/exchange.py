"""How many bytes a cycle an SM gets from the shared memory of the others of its cluster.

All threads of all CTAs of a cluster load sixteen bytes from each of the others at once, from
places that differ with every step, as the CTAs do that put the splits of a query tile together
(`fa4_cute.output.cluster`). The loads of several steps are under way together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.timing.questions import ROUNDS, SMS
from benchmarks.timing.sharing.pairs import WORDS
from testing.hardware.case import Case, filled
from testing.hardware.micro.shared import BASE, SMEM

VECTOR_BYTES: Final = 16
"""Of one load."""
COUNTS: Final = (8, 32)
"""Steps of the two lengths."""
_WORDS: Final = tuple(f"%r{30 + k}" for k in range(4))


@dataclass(frozen=True)
class Exchange:
    """Loads from the other CTAs of a cluster by all clusters of the chip at once.

    Attributes:
        cluster: its CTAs. warps: of a CTA that load. sms: of the chip.
    """

    cluster: int
    warps: int
    sms: int = SMS

    @property
    def grid(self) -> int:
        """CTAs: one an SM, in whole clusters."""
        return self.sms // self.cluster * self.cluster

    @property
    def name(self) -> str:
        """Unique."""
        return f"loads of 16 bytes from all others, clusters of {self.cluster}, {self.warps} warps"

    @property
    def step_bytes(self) -> int:
        """Bytes that a CTA gets in a step."""
        return (self.cluster - 1) * self.stride

    @property
    def stride(self) -> int:
        """Bytes of each CTA that a step reads."""
        return 32 * self.warps * VECTOR_BYTES

    def sums(self, count: int) -> np.ndarray:
        """What each thread of a CTA has added up in ``count`` steps and all rounds, by CTA."""
        own = np.arange(self.grid) % self.cluster + 1
        of_cluster = self.cluster * (self.cluster + 1) // 2
        return np.asarray(ROUNDS * count * len(_WORDS) * (of_cluster - own))

    def case(self, count: int) -> Case:
        """The micro-kernel with ``count`` steps; its output is SM and cycles by round, by CTA."""
        block = 32 * self.warps
        steps = "".join(self._step(step, rank) for step in range(count)
                        for rank in range(1, self.cluster))  # fmt: skip
        others = "".join(
            f"add.u32 %r22, %r20, {k}; and.b32 %r22, %r22, {self.cluster - 1};"
            f"mapa.shared::cluster.u32 %r{50 + k}, %r3, %r22;"
            for k in range(1, self.cluster)
        )
        body = [
            BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r61, %smid; mov.u32 %r60, 0;"
            "mov.u32 %r20, %cluster_ctarank; setp.ne.u32 %q3, %r0, 0;"
            f"mul.wide.u32 %rd62, %r62, {4 * WORDS}; add.s64 %rd62, %rd62, %p0;"
            "@!%q3 st.global.b32 [%rd62], %r61;"
            f"shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r1; {others} mov.u32 %r5, 0;",
            self._filling(),
            "ROUND: barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r48, %clock;",
            steps,
            "bar.sync 0; mov.u32 %r49, %clock; sub.u32 %r47, %r49, %r48;"
            "@!%q3 st.global.b32 [%rd62+4], %r47; add.s64 %rd62, %rd62, 4; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND;"
            # What was loaded is used, so the loads are not left out.
            f"mad.lo.u32 %r4, %r62, {block}, %r0; mul.wide.u32 %rd60, %r4, 4;"
            "add.s64 %rd60, %rd60, %p1; st.global.b32 [%rd60], %r5;"
            "barrier.cluster.arrive; barrier.cluster.wait;",
        ]
        return Case(
            name=f"{self.name} x {count}", family="timing", body="\n".join(body),
            outputs=(filled(self.grid * WORDS, np.uint32), filled(self.grid * block, np.uint32)),
            grid=self.grid, cluster=self.cluster, block=block, smem=max(COUNTS) * self.stride,
            shared=SMEM,
        )  # fmt: skip

    def _filling(self) -> str:
        """Every word of a CTA's memory that is read is its rank and one."""
        own = "add.u32 %r6, %r20, 1;"
        stores = "".join(
            f"st.shared.v4.b32 [%r3+{step * self.stride}], {{%r6, %r6, %r6, %r6}};"
            for step in range(max(COUNTS))
        )
        return own + stores

    def _step(self, step: int, rank: int) -> str:
        words = ", ".join(_WORDS)
        load = f"ld.shared::cluster.v4.b32 {{{words}}}, [%r{50 + rank}+{step * self.stride}]; "
        return load + "".join(f"add.u32 %r5, %r5, {word}; " for word in _WORDS)


def bytes_per_cycle(short: np.ndarray, long: np.ndarray, asked: Exchange) -> np.ndarray:
    """What each CTA gets, from the outputs of the two lengths: the fastest round of each."""
    cycles = [x.reshape(asked.grid, WORDS)[:, 2:].min(axis=1).astype(float) for x in (short, long)]
    return np.asarray(asked.step_bytes * (COUNTS[1] - COUNTS[0]) / (cycles[1] - cycles[0]))


def questions() -> tuple[Exchange, ...]:
    """Clusters of two, four and eight, with as many warps as shared memory has room for."""
    return tuple(Exchange(cluster, warps) for cluster in (2, 4, 8) for warps in (1, 4, 8))
