"""Which instructions let clusters talk to one another."""

from __future__ import annotations

import pytest

from sm100sim.isa.cross_talk import Talk, talk_of
from sm100sim.ptx.parser import parse
from testing.harness import kernel_text

QUIET = (
    "ld.global.b32 %r1, [%rd1];",
    "ld.global.nc.b32 %r1, [%rd1];",
    "st.b32 [%rd1], %r1;",
    "ld.volatile.shared.b32 %r1, [%r2];",
    "ld.relaxed.cta.global.b32 %r1, [%rd1];",
    "ld.acquire.cluster.global.b32 %r1, [%rd1];",
    "atom.shared.add.u32 %r1, [%r2], 1;",
    "atom.shared::cluster.add.u32 %r1, [%r2], 1;",
    "red.shared::cta.add.u32 [%r2], 1;",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
    " [%r1], [%r2], %r3, [%r4];",
    "fence.acq_rel.gpu;",
)
ORDER = (
    "red.global.add.f32 [%rd1], %f1;",
    "red.add.u32 [%rd1], 1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1}], [%r2];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    " [%r1], [%r2];",
)
WAITS = (
    "ld.volatile.global.b32 %r1, [%rd1];",
    "ld.acquire.gpu.b32 %r1, [%rd1];",
    "ld.relaxed.sys.global.b32 %r1, [%rd1];",
    "st.release.gpu.global.b32 [%rd1], %r1;",
    "atom.global.add.u32 %r1, [%rd1], 1;",
    "atom.relaxed.gpu.cas.b32 %r1, [%rd1], %r2, %r3;",
)


def talk(body: str) -> Talk:
    return talk_of(parse(kernel_text(body, [])).kernels["k"].body)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        *((statement, Talk.NEVER) for statement in QUIET),
        *((statement, Talk.ORDER) for statement in ORDER),
        *((statement, Talk.WAITS) for statement in WAITS),
    ],
)
def test_an_instruction(statement: str, expected: Talk) -> None:
    assert talk(statement) is expected


def test_a_program_talks_as_much_as_its_strongest_instruction() -> None:
    assert talk(ORDER[0] + WAITS[0] + QUIET[0]) is Talk.WAITS
    assert talk(QUIET[0] + ORDER[0]) is Talk.ORDER
    assert talk("") is Talk.NEVER
