"""Figures of launches that were heard."""

from __future__ import annotations

import numpy as np

from benchmarks.originals.launches import hearing, launch_facts
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned
from tests.sim.isa.memory.test_tma import GOOD, SOURCE, dump, load


def test_a_copy_its_barrier_and_the_map() -> None:
    out = aligned(1024, np.uint8)
    with hearing() as heard:
        run_ptx(
            load(GOOD, (0, 0)) + dump(1024), SOURCE, out, GOOD.encode(), shared=SMEM, smem=4096,
            trace_cluster=0,
        )  # fmt: skip
    ((request, report, recorded),) = heard
    assert recorded is not None
    assert recorded.request is request
    facts = launch_facts(request, report, None)
    assert facts.smem_bytes == 4096
    assert len(facts.barriers) == 1
    assert facts.copies == ((facts.barriers[0] + 1024, 1024),)
    assert (facts.loaded, facts.stored, facts.mmas) == (1024, 0, 0)
    assert facts.instructions == report.instructions
    assert facts.ptx == len(recorded.assembled.code)
