"""What tcgen05 tells the watchers: each ordering rule with a correct and a broken program."""

from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from tests.sim.isa.tcgen05.mma_cases import program, run_case
from tests.sim.isa.tcgen05.mma_reference import Case
from tests.sim.isa.tcgen05.programs import barrier
from tests.sim.isa.tcgen05.test_mma import simple

ISSUE = "@!%q5 bra ISSUED;"
PAIR: dict[str, Any] = {"m": 256, "group": 2}


def codes(case: Case, before: str = "", **options: Any) -> list[str]:
    """Findings with `before` executed by all threads ahead of the MMA."""
    text = program(case).replace(ISSUE, f"or.b32 %r12, %r30, %r10;\n{before}\n{ISSUE}")
    return [f.code for f in run_case(case, body=text, checks=Check.ALL, **options)[0].findings]


@pytest.mark.parametrize("mode", ["fast", "random", "late"])
@pytest.mark.parametrize("shape", [{}, PAIR], ids=["cta_group::1", "cta_group::2"])
def test_a_correct_program_is_silent_and_right(shape: dict[str, Any], mode: str) -> None:
    case = simple(n=128, accumulate=True, **shape)
    report, after = run_case(case, checks=Check.ALL, mode=mode)
    assert not report.findings
    np.testing.assert_array_equal(after, case.expected())


@pytest.mark.parametrize("shape", [{}, PAIR], ids=["cta_group::1", "cta_group::2"])
def test_reading_d_without_waiting_for_the_commit_is_a_race(shape: dict[str, Any]) -> None:
    assert "race-tmem" in codes(simple(**shape), wait=False)


@pytest.mark.parametrize("shape", [{}, PAIR], ids=["cta_group::1", "cta_group::2"])
def test_generic_writes_of_operands_need_a_proxy_fence(shape: dict[str, Any]) -> None:
    everyone = barrier(shape.get("group", 1))
    write = f"{everyone} @%q1 st.shared.b32 [%r2], %r0;"
    assert codes(simple(**shape), f"{write} fence.proxy.async.shared::cta; {everyone}") == []
    assert codes(simple(**shape), f"{write} {everyone}") == ["race-shared"]


def test_a_pair_reads_the_peers_operands() -> None:
    """A barrier of one CTA does not order the other CTA's writes before the pair's MMA."""
    write = "bar.sync 0; @%q1 st.shared.b32 [%r2], %r0; fence.proxy.async.shared::cta;"
    assert codes(simple(**PAIR), f"{write} {barrier(2)}") == []
    assert codes(simple(**PAIR), f"{write} bar.sync 0;") == ["race-shared"]


def test_tmem_stores_need_a_wait_before_an_mma() -> None:
    store = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r12], {%r0};"
    assert codes(simple(), f"{store} tcgen05.wait::st.sync.aligned; bar.sync 0;") == []
    assert "race-tmem" in codes(simple(), f"{store} bar.sync 0;")
