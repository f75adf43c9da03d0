"""Programs with one ordering edge, which can be left out.

Every program starts with two mbarriers (count 1) at %r1 and %r1+8, initialised, fenced and followed
by
a CTA barrier; %r3 is the thread, %p0 a source of 64 words and %p1 a destination in global memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, only, wait

MODES = (("fast", 0), ("late", 0), ("random", 1), ("random", 2))
BOTH = "mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 1;"
FENCE_INIT = "fence.mbarrier_init.release.cluster;"
SETUP = (
    "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x;"
    + only(0, BOTH + FENCE_INIT, "INITIALISED")
    + "bar.sync 0;"
)
CLUSTER = "barrier.cluster.arrive; barrier.cluster.wait;"
RANKS = (
    "mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, 0; mapa.shared::cluster.u32 %r22, %r1, %r21;"
    "setp.eq.u32 %q0, %r20, 0; setp.ne.u32 %q1, %r20, 0;"
)
"""%r22: the address %r1 in CTA 0; %q0 in CTA 0, %q1 elsewhere."""

READ = "ld.shared.b32 %r5, [%r1+16];"
WRITE = "st.shared.b32 [%r1+16], 7;"
ARRIVE = "mbarrier.arrive.shared.b64 %rd9, [%r1];"
WAIT = wait("%r1", 0, "W")
LOAD = (
    "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+16], [%p0], 16, [%r1];"
)
REFILL = LOAD.replace("[%r1]", "[%r1+8]")
STORE = (
    "cp.async.bulk.global.shared::cta.bulk_group [%p1], [%r1+16], 16; cp.async.bulk.commit_group;"
)


@dataclass(frozen=True)
class Edge:
    """A program and one edge of it.

    Attributes:
        name: what the edge is.
        body: the program; EDGE marks the place of the edge.
        edge: PTX that belongs there.
        code: what the checker reports without it, and nothing else.
        says: words that the message then holds: who, and which edge is missing.
        broken: PTX that stands there in the broken program.
        lines: instructions among the two reported ones, in any order: without the edge either may
            come first.
        block, ctas: threads of a CTA, CTAs of the one cluster.
        checks: the observers.
    """

    name: str
    body: str
    edge: str
    code: str = "race-shared"
    says: tuple[str, ...] = ()
    broken: str = ""
    lines: tuple[str, ...] = ()
    block: int = 64
    ctas: int = 1
    checks: Check = Check.RACES

    def run(self, edge: str, mode: str, seed: int) -> Report:
        """Run the program with `edge` in its place."""
        source, out = aligned(64, np.uint32), aligned(64, np.uint32)
        source[:] = np.arange(64)
        text = (SETUP + self.body.replace("EDGE", edge)).replace(";", ";\n")
        size = (self.ctas, 1, 1)
        return run_ptx(
            text,
            source,
            out,
            checks=self.checks,
            mode=mode,
            seed=seed,
            shared=SMEM,
            smem=1024,
            block=self.block,
            grid=size,
            cluster=size,
            raise_on_fault=False,
        )

    def hold(self, mode: str, seed: int) -> None:
        """Assert both sides: clean with the edge, found and explained without it."""
        correct = self.run(self.edge, mode, seed)
        assert (correct.verdict, correct.findings) == ("clean", ())
        broken = self.run(self.broken, mode, seed)
        assert broken.verdict == "findings"
        assert {finding.code for finding in broken.findings} == {self.code}
        finding = broken.findings[0]
        for words in self.says:
            assert words in finding.message
        sources = [finding.source.strip(), finding.source2.strip()]
        for words in self.lines:
            assert any(words in source for source in sources), sources
        if self.code.startswith("race"):
            assert "missing: " in finding.message
            assert finding.line
            assert finding.line2


def both_sides(edges: tuple[Edge, ...]) -> pytest.MarkDecorator:
    """Parametrise a test `(case, mode, seed)` over programs and modes."""
    cases = [
        pytest.param(edge, mode, seed, id=f"{edge.name}-{mode}{seed}")
        for edge in edges
        for mode, seed in MODES
    ]
    return pytest.mark.parametrize(("case", "mode", "seed"), cases)
