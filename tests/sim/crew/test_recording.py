"""What is recorded of a run: steps with their lanes, values of operands, and of which clusters."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.contract.codes import NONE32, SM_COUNT
from sm100sim.crew.recording import Recording, recording
from sm100sim.engine.binding import opcode_numbers
from testing.harness import SMEM, run_ptx

HERE = """mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 32, %r2;
mul.wide.u32 %rd1, %r3, 4; add.u64 %rd2, %p0, %rd1;"""
LOOP = (
    HERE
    + """
mov.u32 %r4, 0;
L: add.u32 %r4, %r4, 1; setp.lt.u32 %q1, %r4, 3; @%q1 bra L;
setp.lt.u32 %q2, %r2, 4; @%q2 bra FEW; st.global.b32 [%rd2], %r4;
FEW:"""
)
WAITS = """
mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
setp.ne.u32 %q1, %r2, 0; @%q1 bra READY; mbarrier.init.shared.b64 [%r1], 32;
READY: bar.sync 0;
setp.lt.u32 %q2, %r2, 32; @%q2 bra WAITER;
mbarrier.arrive.shared.b64 _, [%r1]; bra DONE;
WAITER: mbarrier.try_wait.parity.shared.b64 %q3, [%r1], 0; @!%q3 bra WAITER;
DONE:"""


def steps_of(recorded: Recording, name: str) -> np.ndarray:
    ops = recorded.assembled.code["op"][recorded.steps["instruction"]]
    return recorded.steps[ops == opcode_numbers()[name]]


def test_branches_and_stores_are_recorded_with_their_lanes() -> None:
    out = np.zeros(64, np.uint32)
    with recording() as launches:
        run_ptx(LOOP, out, grid=(2, 1, 1))
    assert out[4:32].tolist() == [3] * 28
    (recorded,) = launches
    first = recorded.steps["cluster"] == 0
    assert 0 < first.sum() < len(first)
    branches = steps_of(recorded, "BRA")
    loop, few = (branches[(branches["cluster"] == 0)][k] for k in (slice(3), 3))
    assert loop["mask"].tolist() == [0xFFFFFFFF, 0xFFFFFFFF, 0]
    assert (few["mask"], few["active"]) == (0xF, 0xFFFFFFFF)
    (store, _) = steps_of(recorded, "ST")
    assert store["mask"] == 0xFFFFFFF0
    addresses = recorded.values[store["value"] : store["value"] + 28]
    assert (addresses - out.ctypes.data).tolist() == list(range(16, 128, 4))


def test_only_chosen_clusters_are_recorded_and_run() -> None:
    out = np.zeros(128, np.uint32)
    with recording([2, 9], others=False) as launches:
        report = run_ptx(LOOP, out, grid=(4, 1, 1), threads=4)
    assert set(launches[0].steps["cluster"]) == {2}
    assert out.any()
    assert not out[:64].any()
    assert not out[96:].any()
    assert report.complete


def test_a_wait_is_recorded_once_with_the_phase_it_found() -> None:
    with recording([0]) as launches:
        run_ptx(WAITS, block=64, smem=16, shared=SMEM)
    waits = steps_of(launches[0], "MBAR_WAIT")
    assert waits["warp"].tolist() == [0]
    assert waits["notes"][:, 0].tolist() == [1]
    (made,) = steps_of(launches[0], "MBAR_INIT")
    assert launches[0].values[made["value"] : made["value"] + 2].tolist() == [0x400, 32]


def test_nothing_is_recorded_outside_of_the_block() -> None:
    out = np.zeros(32, np.uint32)
    with recording() as launches:
        pass
    run_ptx(LOOP, out)
    assert not launches
    with pytest.raises(ValueError, match="clusters"), recording([-1]):
        pass


TAKES_OVER = """
mov.u32 %r1, dyn; mov.u32 %r10, %ctaid.x; mov.u32 %r15, %ctaid.x; mov.u32 %r11, 0;
mbarrier.init.shared.b64 [%r1], 1;
NEXT: mad.wide.u32 %rd1, %r10, 4, %p0; st.global.u32 [%rd1], %r15;
mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r1], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1+16], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %q0, [%r1], %r11; @!%q0 bra WAIT;
xor.b32 %r11, %r11, 1; ld.shared.b128 %x0, [%r1+16];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q1, %x0; @!%q1 bra DONE;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r10, %x0; bra NEXT; DONE:"""
"""Each CTA writes its number for the work of its own and of those that it takes over."""
PLACES = SM_COUNT
"""CTAs of so much shared memory that run at once."""


def taken_over(
    ctas: int, clusters: list[int] | None, **options: bool
) -> tuple[list[int], Recording]:
    """Who did the work of each CTA, and what was recorded."""
    out = np.full(ctas, NONE32, np.uint32)
    with recording(clusters, **options) as launches:
        run_ptx(
            TAKES_OVER, out, block=1, grid=(ctas, 1, 1), shared=SMEM, smem=200_000,
            regs=".reg .b128 %x<2>;",
        )  # fmt: skip
    return out.tolist(), launches[0]


def test_clusters_take_over_others_as_where_the_chip_is_full() -> None:
    """Two rounds and a part of the third: there, back, and there again."""
    count = 2 * PLACES + 40
    done_by, recorded = taken_over(count, [0], abreast=True)
    there = list(range(PLACES))
    assert done_by == [*there, *there[::-1], *there[:40]]
    assert recorded.taken == count - PLACES
    assert set(recorded.steps["cluster"]) == {0}
    assert len(steps_of(recorded, "TRY_CANCEL")) == 3


def test_a_part_of_a_round_goes_to_those_with_least() -> None:
    done_by, recorded = taken_over(PLACES + 8, None, abreast=True)
    assert done_by[PLACES:] == list(range(PLACES))[:-9:-1]
    assert recorded.taken == 8
    assert len(set(recorded.steps["cluster"])) == PLACES


def test_the_first_cluster_takes_over_all_where_they_run_one_after_the_other() -> None:
    done_by, recorded = taken_over(PLACES + 8, [0])
    assert done_by == [0] * (PLACES + 8)
    assert recorded.taken == 0


def test_what_is_left_out_is_taken_over_by_nobody() -> None:
    done_by, recorded = taken_over(2 * PLACES, [3, 2 * PLACES - 4], others=False, abreast=True)
    assert [k for k, of in enumerate(done_by) if of == 3] == [3, 2 * PLACES - 4]
    assert done_by.count(NONE32) == 2 * PLACES - 2
    assert recorded.taken == 1
