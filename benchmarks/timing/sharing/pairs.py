"""How long an arrival takes to the barrier of another CTA of a cluster, and a load of its memory.

Two warps hand over to one another and back: of one CTA, or one of each of two CTAs, with the same
instructions. Half of what the second takes longer is `remote_latency`. And what barriers of a
cluster and fences take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from benchmarks.timing.micro import Runner
from benchmarks.timing.questions import ROUNDS, SMS, barriers, wait
from testing.hardware.case import Case, filled
from testing.hardware.micro.shared import BASE, SMEM

COUNTS: Final = (8, 40)
"""Steps of the two lengths; even, so that every round begins with the same parity."""
WORDS: Final = ROUNDS + 1
"""The SM, and the cycles of each round."""
CELL: Final = 512
"""Where a CTA keeps the address that loads follow."""
ARRIVE: Final = {
    "own form": "mbarrier.arrive.shared.b64 %rd9, [%r23]; ",
    "cluster form": "mbarrier.arrive.shared::cluster.b64 _, [%r23]; ",
    "release.cluster": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23]; ",
}
"""Ways to arrive at the barrier at %r23."""


@dataclass(frozen=True)
class Pair:
    """A hand-over and back, or a chain of loads, by all pairs of the chip at once.

    Attributes:
        arrive: a key of `ARRIVE`, or "" for loads. lanes: that arrive.
        cluster: CTAs of a cluster. distance: the partner's rank differs in this bit; 0: the two
            warps are of one CTA, and loads are of the CTA's own memory by its cluster address.
        sms: of the chip.
    """

    arrive: str
    lanes: int = 1
    cluster: int = 1
    distance: int = 0
    sms: int = SMS

    @property
    def grid(self) -> int:
        """CTAs: one an SM, in whole clusters."""
        return self.sms // self.cluster * self.cluster

    @property
    def name(self) -> str:
        """Unique."""
        where = f"clusters of {self.cluster}, ranks {self.distance} apart"
        where = where if self.distance else "one CTA"
        if not self.arrive:
            return f"load of shared memory by a cluster's address, a chain, {where}"
        return f"hand-over and back, {self.arrive}, {self.lanes} lanes, {where}"

    def case(self, count: int) -> Case:
        """The micro-kernel with `count` steps; its output is SM and cycles by round, by CTA."""
        first, second = self._steps(count)
        body = [
            BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r61, %smid; mov.u32 %r60, 0;"
            "mov.u32 %r20, %cluster_ctarank; and.b32 %r2, %r0, 31; shr.u32 %r21, %r0, 5;",
            barriers(self.lanes),
            self._partner(),
            f"setp.ge.u32 %q2, %r2, {self.lanes}; mul.wide.u32 %rd62, %r62, {4 * WORDS};"
            "add.s64 %rd62, %rd62, %p0; setp.ne.u32 %q3, %r0, 0; @!%q3 st.global.b32 [%rd62], %r61;"
            "ROUND: barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r50, %clock;"
            "@%q1 bra SECOND;",
            first,
            "bra END; SECOND:",
            second,
            "END: mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50;"
            "@!%q3 st.global.b32 [%rd62+4], %r52; add.s64 %rd62, %rd62, 4; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND;"
            "st.volatile.shared.b32 [%r1+256], %r3; barrier.cluster.arrive; barrier.cluster.wait;",
        ]
        return Case(
            name=f"{self.name} x {count}", family="timing", body="\n".join(body),
            outputs=(filled(self.grid * WORDS, np.uint32),), grid=self.grid, cluster=self.cluster,
            block=64 if self.arrive and not self.distance else 32, smem=4096, shared=SMEM,
        )  # fmt: skip

    def _partner(self) -> str:
        """Barriers: own (%r24), other (%r23); %q1: who waits first; %r3: what loads follow."""
        mine = "mapa.shared::cluster.u32 %r25, %r1, %r20;"
        other = f"xor.b32 %r22, %r20, {self.distance}; mapa.shared::cluster.u32 %r23, %r1, %r22;"
        cell = (
            f"add.u32 %r26, %r25, {CELL}; st.volatile.shared.b32 [%r1+{CELL}], %r26;"
            f"add.u32 %r3, %r23, {CELL};"
        )
        if self.distance or not self.arrive:
            second = f"and.b32 %r27, %r20, {self.distance}; setp.ne.u32 %q1, %r27, 0;"
            return f"{mine} {other} {cell} mov.u32 %r24, %r1; {second}"
        base = "%r1" if self.arrive == "own form" else "%r25"
        return (
            f"{mine} mov.u32 %r3, 0; shl.b32 %r27, %r21, 3; add.u32 %r24, %r1, %r27;"
            f"xor.b32 %r27, %r27, 8; add.u32 %r23, {base}, %r27; setp.ne.u32 %q1, %r21, 0;"
        )

    def _steps(self, count: int) -> tuple[str, str]:
        if not self.arrive:
            text = "ld.shared::cluster.b32 %r3, [%r3]; " * count
            return text, text
        arrive = "@!%q2 " + ARRIVE[self.arrive]
        waits = [[wait("%r24", n % 2, side).replace("$n", str(n)) for side in "UV"]
                 for n in range(count)]  # fmt: skip
        return (
            "".join(arrive + waits[n][0] for n in range(count)),
            "".join(waits[n][1] + arrive for n in range(count)),
        )


def one_of(short: np.ndarray, long: np.ndarray, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """SM and cycles of one step by CTA, from the outputs of the two lengths."""
    cycles = [x.reshape(pair.grid, WORDS)[:, 2:].min(axis=1).astype(float) for x in (short, long)]
    return short.reshape(pair.grid, WORDS)[:, 0], (cycles[1] - cycles[0]) / (COUNTS[1] - COUNTS[0])


PLACES: Final = ((2, 1), (4, 1), (4, 2), (8, 4))
PAIRS: Final = (
    Pair(""), *(Pair("", 1, *place) for place in PLACES),
    *(Pair(arrive, lanes) for arrive in ARRIVE for lanes in (1, 32)),
    *(Pair(arrive, lanes, *place) for arrive in list(ARRIVE)[1:] for lanes in (1, 32)
      for place in PLACES),
)  # fmt: skip


ORDERS: Final = {
    "barrier.cluster, relaxed": "barrier.cluster.arrive.relaxed.aligned; "
    "barrier.cluster.wait.aligned; ",
    "barrier.cluster": "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ",
    "fence.acq_rel.cta": "fence.acq_rel.cta; ", "fence.acq_rel.cluster": "fence.acq_rel.cluster; ",
    "fence.acq_rel.gpu": "fence.acq_rel.gpu; ", "fence.sc.gpu": "fence.sc.gpu; ",
    "fence.proxy.async": "fence.proxy.async; ", "fence.acq_rel.sys": "fence.acq_rel.sys; ",
    "fence.proxy.async.shared::cta": "fence.proxy.async.shared::cta; ",
}  # fmt: skip
"""What all threads of a CTA do together, or one after the other."""
AHEAD: Final = {
    "stores": "st.global.b32 [%rd4+{global_}], %r0; ",
    "loads": "ld.relaxed.gpu.global.b32 %w{k}, [%rd4+{global_}]; ",
    "shared stores": "st.volatile.shared.b32 [%r3+{shared}], %r0; ",
    "lane copies": "cp.async.ca.shared.global [%r3+{shared}], [%rd4+{global_}], 4; ",
    "reductions": "red.relaxed.gpu.global.add.u32 [%rd4+{global_}], %r0; ",
}
"""What each thread does ahead of a fence and does not wait for: 4 bytes of a line of its warp."""


@dataclass(frozen=True)
class Order:
    """Barriers of clusters, or fences, in a row.

    Attributes:
        what: a key of `ORDERS`. warps: of a CTA. cluster: CTAs. ahead: of `kind`, each time.
        ctas: one an SM. kind: a key of `AHEAD`.
    """

    what: str
    warps: int = 1
    cluster: int = 1
    ahead: int = 0
    ctas: int = SMS
    kind: str = "stores"
    counts: tuple[int, int] = COUNTS

    @property
    def grid(self) -> int:
        """CTAs: one an SM, in whole clusters."""
        return self.ctas // self.cluster * self.cluster

    @property
    def name(self) -> str:
        """Unique."""
        behind = f" behind {self.ahead} {self.kind}" if self.ahead else ""
        where = f"{self.warps} warps of clusters of {self.cluster}" if self.cluster > 1 else (
            f"{self.warps} warps of {self.ctas} CTAs"
        )  # fmt: skip
        return f"{self.what}{behind}, {where}"

    def case(self, count: int) -> Case:
        """The micro-kernel with `count` steps; its output is cycles by round, CTA and thread."""
        grid, threads = self.grid, 32 * self.warps
        ahead = "".join(
            AHEAD[self.kind].format(k=k, global_=4096 * k, shared=4 * threads * k)
            for k in range(self.ahead)
        )
        loaded = range(self.ahead if self.kind == "loads" else 0)
        used = "".join(f"xor.b32 %r61, %r61, %w{k}; " for k in loaded)
        body = (
            BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r60, 0; mov.u32 %r61, 0;"
            f".reg .b32 %w<{len(loaded) + 1}>; shl.b32 %r3, %r0, 2; add.u32 %r3, %r1, %r3;"
            f"mad.lo.u32 %r59, %r62, {threads}, %r0; mul.wide.u32 %rd62, %r59, 4;"
            f"mul.wide.u32 %rd4, %r62, {4096 * max(self.ahead, 1)}; add.s64 %rd4, %rd4, %p1;"
            "mul.wide.u32 %rd5, %r0, 4; add.s64 %rd4, %rd4, %rd5; add.s64 %rd62, %rd62, %p0;"
            "ROUND: bar.sync 0; mov.u32 %r50, %clock;\n"
            + (ahead + ORDERS[self.what] + used + "\n") * count
            + "mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50; st.global.b32 [%rd62], %r52;"
            "st.volatile.shared.b32 [%r3], %r61;"
            f"add.s64 %rd62, %rd62, {4 * grid * threads}; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND;"
        )
        return Case(
            name=f"{self.name} x {count}", family="timing", body=body, cluster=self.cluster,
            outputs=(filled(ROUNDS * grid * threads, np.uint32),
                     np.zeros(4096 * grid * max(self.ahead, 1), np.uint8)),
            grid=grid, block=threads, smem=4 * threads * max(self.ahead, 1),
            shared=SMEM,
        )  # fmt: skip

    def ask(self, run: Runner) -> dict[str, Any]:
        """Ask a GPU both lengths."""
        (short, *_), (long, *_) = (run(self.case(count)) for count in COUNTS)
        return self.answer(short, long)

    def answer(self, short: np.ndarray, long: np.ndarray) -> dict[str, Any]:
        """Cycles of one: of a CTA's slowest thread, the median of CTAs, in the fastest round."""
        each = [
            np.median(x.reshape(ROUNDS, -1, 32 * self.warps).max(axis=2), axis=1)[1:].min()
            for x in (short, long)
        ]
        return {"name": self.name, "one": float(each[1] - each[0]) / (COUNTS[1] - COUNTS[0])}


BARRIERS: Final = tuple(ORDERS)[:2]
FENCES: Final = tuple(ORDERS)[2:]
ALIKE: Final = {"fence.acq_rel.cluster", "fence.sc.gpu"}
"""Fences that compile to what `fence.acq_rel.gpu` does, or nearly; they were asked a few times."""
ORDERED: Final = (
    *(Order(what, warps, cluster) for what, warps, cluster in product(
        BARRIERS, (1, 4, 12), (2, 4, 8))),
    *(Order(what, warps, 2) for what, warps in product(BARRIERS, (8, 16, 32))),
    *(Order(what, warps, 1, ahead, ctas) for what, warps, ahead, ctas in product(
        FENCES, (1, 4), (0, 1, 8), (1, SMS))),
    *(Order(what, warps) for what, warps in product(FENCES, (8, 12, 16, 32)) if what not in ALIKE),
    *(Order(what, warps, 1, ahead, kind=kind) for what, kind, warps, ahead in product(
        FENCES, tuple(AHEAD)[1:], (1, 4), (1, 8)) if what not in ALIKE),
)  # fmt: skip


def order_table(answers: Iterable[Mapping[str, Any]]) -> str:
    """A row for each situation, and a column for what was asked there."""
    said = {entry["name"]: entry["one"] for entry in answers}
    parts = []
    for columns in (BARRIERS, FENCES):
        rows: dict[str, dict[str, float]] = {}
        for order in ORDERED:
            if order.what in columns:
                where = order.name.removeprefix(order.what).removeprefix(", ").strip()
                rows.setdefault(where, {})[order.what] = said[order.name]
        head = f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}"
        cells = (
            f"| {where} | {' | '.join(f'{row[c]:.1f}' if c in row else '' for c in columns)} |"
            for where, row in rows.items()
        )
        parts.append("\n".join((head, *cells)))
    return "\n\n".join(parts)
