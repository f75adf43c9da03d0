"""Named barriers, bar.warp.sync, setmaxnreg."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from sm100sim.run import prepare
from testing.harness import kernel_text, run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of

OPTIONS: dict[str, Any] = {"shared": SMEM, "smem": 1024}
WARP = "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5;"


def branch_by_warp(*bodies: str) -> str:
    """Body k for warp k, and all warps meet behind it."""
    parts = [
        f"setp.ne.u32 %q9, %r1, {k}; @%q9 bra N{k}; {body} bra.uni END; N{k}:"
        for k, body in enumerate(bodies)
    ]
    return WARP + "".join(parts) + "END:"


@pytest.mark.parametrize(
    "form",
    [
        "bar.sync 0;",
        "barrier.sync 0;",
        "barrier.cta.sync.aligned 0;",
        "bar.sync 3, 128;",
        "mov.u32 %r8, 5; mov.u32 %r9, 128; bar.sync %r8, %r9;",
    ],
)
@pytest.mark.parametrize("mode", ["fast", "random"])
def test_all_warps_meet(form: str, mode: str) -> None:
    out = aligned(128, np.uint32)
    run_ptx(
        (
            "mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; shl.b32 %r2, %r0, 2; "
            "add.s32 %r3, %r1, %r2; st.shared.b32 [%r3], %r0;"
        )
        + form
        + "xor.b32 %r4, %r2, 508; add.s32 %r4, %r4, %r1; ld.shared.b32 %r5, [%r4]; "
        "mad.wide.u32 %rd2, %r0, 4, %p0;"
        "st.global.b32 [%rd2], %r5;" + form,
        out,
        block=128,
        mode=mode,
        **OPTIONS,
    )
    assert out.tolist() == list(range(127, -1, -1))


@pytest.mark.parametrize("mode", ["fast", "random"])
def test_producers_arrive_and_consumers_sync(mode: str) -> None:
    """Three rounds of full (1) and empty (2) between a producer and a consumer warp."""
    produce = "".join(
        f"bar.sync 2, 64; st.shared.b32 [%r7], {10 + k}; bar.arrive 1, 64;" for k in range(3)
    )
    consume = "".join(
        (
            f"bar.arrive 2, 64; bar.sync 1, 64; ld.shared.b32 %r6, [%r7]; "
            f"st.global.b32 [%p0+{4 * k}], %r6;"
        )
        for k in range(3)
    )
    out = aligned(3, np.uint32)
    run_ptx(
        "mov.u32 %r7, dyn;" + branch_by_warp(produce, consume), out, block=64, mode=mode, **OPTIONS
    )
    assert out.tolist() == [10, 11, 12]


def test_partial_warps_count_whole() -> None:
    run_ptx("bar.sync 0; bar.sync 1, 64;", block=40)


def test_exited_warps_do_not_hold_up_a_barrier_without_count() -> None:
    run_ptx(branch_by_warp("ret;", "bar.sync 0;", "bar.sync 0;"), block=96)
    assert "deadlock" in fault_of(
        branch_by_warp("ret;", "bar.sync 0, 96;", "bar.sync 0, 96;"), block=96
    )


def test_reductions() -> None:
    out = aligned(3, np.uint32)
    run_ptx(
        "mov.u32 %r0, %tid.x; setp.lt.u32 %q0, %r0, 40; bar.red.popc.u32 %r1, 0, %q0; "
        "barrier.cta.red.and.pred %q1, 1, 64, %q0;"
        "bar.red.or.pred %q2, 0, %q0; bar.red.popc.u32 %r4, 0, !%q0; "
        "selp.b32 %r2, 1, 0, %q1; selp.b32 %r3, 2, 0, %q2; add.u32 %r2, %r2, %r3;"
        "st.global.b32 [%p0], %r1; st.global.b32 [%p0+4], %r2; st.global.b32 [%p0+8], %r4;",
        out,
        block=64,
    )
    assert out.tolist() == [40, 2, 24]


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        (("bar.sync 1, 64;", "bar.sync 1, 96;", ""), "thread count"),
        (("bar.sync 1, 32; bar.sync 16, 32;", "", ""), "barrier number 16"),
        (("bar.sync 1, 40;", "", ""), "not a positive multiple"),
        (("bar.sync 1, 128;", "", ""), "more than the CTA's"),
        (("bar.sync 1, 64;", "", ""), "deadlock"),
        (("bar.arrive 1, 64; bar.arrive 1, 64;", "bar.sync 1, 64;", ""), "deadlock"),
        (("mov.u32 %r9, %laneid; bar.sync %r9, 64;", "", ""), "differs between the threads"),
    ],
)
def test_broken_rules_fault(bodies: tuple[str, ...], reason: str) -> None:
    assert reason in fault_of(branch_by_warp(*bodies), block=96)


def test_a_deadlock_names_the_barrier_and_its_count() -> None:
    text = fault_of(branch_by_warp("bar.sync 7, 64;", ""), block=64)
    assert "named barrier 7: 32 of 64 threads arrived" in text


MEET = ".func meet() {{ {barrier} ret; }}\n.shared .align 4 .b8 box[256];"
BY_TWO_CALLS = """
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, box; add.u32 %r2, %r2, %r1;
xor.b32 %r3, %r1, 132; mov.u32 %r4, box; add.u32 %r4, %r4, %r3; mov.u32 %r6, 0; mov.u32 %r7, 0;
and.b32 %r5, %r0, 1; setp.eq.u32 %q1, %r5, 1;
AGAIN: add.u32 %r8, %r0, %r6; st.shared.u32 [%r2], %r8;
@%q1 bra ODD; call meet; bra.uni BOTH; ODD: call meet;
BOTH: ld.shared.u32 %r9, [%r4]; add.u32 %r7, %r7, %r9; bar.sync 1;
add.u32 %r6, %r6, 1; setp.lt.u32 %q2, %r6, 3; @%q2 bra AGAIN;
mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %p0; st.global.u32 [%rd1], %r7;
"""


@pytest.mark.parametrize("mode", ["fast", "random", "late"])
def test_lanes_come_to_a_barrier_by_calls_of_their_own(mode: str) -> None:
    """PTX ISA, "bar, barrier": without .aligned threads of a warp may come by different ways."""
    out = aligned(64, np.uint32)
    function = MEET.format(barrier="barrier.sync 0;")
    report = run_ptx(BY_TWO_CALLS, out, block=64, mode=mode, checks="all", shared=function)
    assert (out == 3 * (np.arange(64) ^ 33) + 3).all()
    assert not report.findings
    aligned_form = MEET.format(barrier="bar.sync 0;")
    assert "deadlock" in fault_of(BY_TWO_CALLS, out, block=64, mode=mode, shared=aligned_form)


def test_divergent_lanes_meet_at_a_warp_barrier() -> None:
    out = aligned(32, np.uint32)
    run_ptx(
        "mov.u32 %r0, %tid.x; mov.u32 %r7, dyn; shl.b32 %r2, %r0, 2; "
        "add.s32 %r3, %r7, %r2; setp.lt.u32 %q0, %r0, 16; @%q0 bra LOW;"
        "st.shared.b32 [%r3], %r0; bar.warp.sync 0xffff0000; bra.uni END; "
        "LOW: add.u32 %r4, %r0, 100; st.shared.b32 [%r3], %r4; END:"
        "bar.warp.sync -1; xor.b32 %r5, %r2, 64; add.s32 %r5, %r5, %r7; ld.shared.b32 %r6, [%r5];"
        "mad.wide.u32 %rd1, %r0, 4, %p0; st.global.b32 [%rd1], %r6;",
        out,
        **OPTIONS,
    )
    assert out.tolist() == list(range(16, 32)) + list(range(100, 116))


def test_lanes_at_a_join_do_not_hold_up_a_warp_barrier() -> None:
    """Two lanes wait for all others of the warp, which leave behind the branch, as in reductions
    of Numba.  A thread does not have to wait where paths meet."""
    out = aligned(32, np.uint32)
    run_ptx(
        "mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %p0; mov.u32 %r1, 7;"
        "setp.gt.u32 %q1, %r0, 1; @%q1 bra JOIN; mov.u32 %r1, 8; bar.warp.sync -1;"
        "JOIN: add.u32 %r1, %r1, %r0; st.global.b32 [%rd1], %r1;",
        out,
        **OPTIONS,
    )
    assert out.tolist() == [8, 9, *range(9, 39)]


def test_tiles_of_a_warp_meet_each_by_its_own_mask() -> None:
    """PTX ISA, "bar.warp.sync": a thread waits for those of its mask, with the same mask."""
    halves = (
        "mov.u32 %r0, %laneid; setp.lt.u32 %q1, %r0, 16; selp.b32 %r1, 0xffff, 0xffff0000, %q1;"
        "bar.warp.sync %r1;"
    )
    run_ptx(halves)
    # Lane 16 waits for lanes 0 to 15, too, which do not wait for it.
    wrong = halves.replace("0xffff0000", "0xffffffff")
    assert "lanes 16 and 0 name the member masks 0xffffffff and 0xffff" in fault_of(wrong)
    # The lower lanes went another way: their tiles are not all here.
    split = "mov.u32 %r3, %laneid; and.b32 %r2, %r3, 15; setp.lt.u32 %q2, %r2, 8; @%q2 bra END; "
    away = split + halves + " END: bar.warp.sync -1;"
    assert "are not all here" in fault_of(away)


def test_warp_barrier_mask_must_hold_its_callers() -> None:
    assert "member mask" in fault_of("bar.warp.sync 0xff;")
    run_ptx("bar.warp.sync 0xffffffff;")


# ---- setmaxnreg ---------------------------------------------------------------------------------
GROUPS = ".reqntid 384, 1, 1\n.minnctapersm 1"  # 168 registers per thread at entry


def by_group(*bodies: str) -> str:
    return "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 7;" + branch_by_warp(*bodies).removeprefix(WARP)


def dec(count: int) -> str:
    return f"setmaxnreg.dec.sync.aligned.u32 {count};"


def inc(count: int) -> str:
    return f"setmaxnreg.inc.sync.aligned.u32 {count};"


@pytest.mark.parametrize("mode", ["fast", "random"])
def test_registers_move_between_warpgroups(mode: str) -> None:
    report = run_ptx(by_group(inc(240), inc(240), dec(24)), block=384, directives=GROUPS, mode=mode)
    assert report.opcode_counts["SETMAXNREG"] == 12


PAIR = ".maxntid 256, 1, 1 .maxnreg 128"
POOLS = [  # directives, warpgroups that end, and the same with a last inc that never ends
    (PAIR, (dec(40), inc(216)), (dec(40), inc(224))),
    (PAIR, (inc(128), inc(128)), ("ret;", inc(232))),  # warps that exit give nothing back
    (PAIR, (dec(24) + "ret;", inc(232)), (dec(40) + "ret;", inc(232))),
    (GROUPS, (inc(240), inc(240), dec(24)), (inc(240), inc(240), dec(32))),
    (
        ".maxntid 256, 1, 1 .maxnreg 100",
        (dec(40), inc(168)),
        (dec(40), inc(176)),
    ),  # 104 are allocated
    (
        ".reqntid 512, 1, 1 .minnctapersm 1",
        (inc(176), inc(176), dec(88), dec(72)),
        (inc(176), inc(176), dec(88), dec(80)),
    ),
    (".reqntid 256, 1, 1 .minnctapersm 2", (dec(40), inc(216)), (dec(40), inc(224))),
    (
        ".reqntid 288, 1, 1 .minnctapersm 1",
        (inc(240), dec(96)),
        (inc(248), dec(96)),
    ),  # 168: ptxas rounds up to 384 threads
]


@pytest.mark.parametrize(("directives", "served", "starved"), POOLS)
@pytest.mark.parametrize("mode", ["fast", "late"])
def test_the_pool_is_what_the_launch_gave_the_cta(
    directives: str, served: tuple[str, ...], starved: tuple[str, ...], mode: str
) -> None:
    """The last register can be had, the next eight per thread never; measured on an H200 for all
    but the last three launches."""
    options: dict[str, Any] = {
        "block": 288 if "288" in directives else 128 * len(served),
        "directives": directives,
        "mode": mode,
    }
    assert run_ptx(by_group(*served), **options).verdict == "clean"
    report = run_ptx(by_group(*starved), raise_on_fault=False, **options)
    assert {f.code for f in report.findings} == {"deadlock"}
    assert all("waits for setmaxnreg to" in f.message for f in report.findings)


def test_the_report_of_a_starved_increase_says_what_is_missing() -> None:
    text = fault_of(by_group(dec(40), inc(224)), block=256, directives=PAIR)
    assert (
        "setmaxnreg to 224 registers per thread: 1024 registers more than the 32768 of "
        "the CTA's pool, 128 per thread at launch"
    ) in text


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ((dec(200), "", ""), "dec to 200 registers from 168"),
        ((inc(160), inc(96), ""), "inc to 96 registers from 160"),
        ((dec(96) + dec(64), "", ""), "before warp"),
    ],
)
def test_setmaxnreg_rules(bodies: tuple[str, ...], reason: str) -> None:
    assert reason in fault_of(by_group(*bodies), block=384, directives=GROUPS)


def test_one_that_changes_nothing_may_come_before_the_others_have_executed_the_last() -> None:
    """As the worker warps of Triton do between two of their regions."""
    bodies = (dec(96) + dec(96), "", "")
    assert run_ptx(by_group(*bodies), block=384, directives=GROUPS).verdict == "clean"


@pytest.mark.parametrize(
    ("directives", "largest", "entry"),
    [
        (".reqntid 256, 1, 1 .minnctapersm 1", 232, 232),  # CUTLASS's grouped GEMM for Hopper
        (".reqntid 256, 1, 1 .minnctapersm 1", 256, 255),
        (".reqntid 256, 1, 1 .maxnreg 200", 160, 160),
        (".reqntid 256, 1, 1 .maxnreg 128", 200, 128),
    ],
)
def test_no_kernel_starts_with_more_registers_than_it_asks_for(
    directives: str, largest: int, entry: int
) -> None:
    """Entry counts are those of ptxas 12.9's cubins."""
    text = kernel_text(by_group(inc(largest), dec(24)), (), directives=directives)
    assert prepare(text, "k").entry_registers == entry


def test_every_warp_of_a_warpgroup_must_take_part() -> None:
    partial = WARP + "setp.eq.u32 %q0, %r1, 1; @%q0 bra SKIP; " + dec(96) + "SKIP:"
    report = run_ptx(partial, block=384, directives=GROUPS)
    assert [f.code for f in report.findings] == ["setmaxnreg"]
    assert "warp 1" in report.findings[0].message
    assert not run_ptx(dec(96), block=384, directives=GROUPS).findings


def test_roles_of_one_warpgroup_may_use_instructions_of_their_own() -> None:
    """As FA4 does: the same count on different lines passes, different counts are a finding."""
    split = WARP + "setp.eq.u32 %q0, %r1, 1; @%q0 bra OTHER; {} bra.uni JOIN; OTHER: {} JOIN:"
    assert not run_ptx(split.format(dec(96), dec(96)), block=384, directives=GROUPS).findings
    report = run_ptx(split.format(dec(96), dec(64)), block=384, directives=GROUPS)
    assert {f.code for f in report.findings} == {"setmaxnreg-differs"}


def test_without_a_known_entry_count_the_instruction_is_ignored_with_a_finding() -> None:
    report = run_ptx(dec(96), block=128)
    assert [f.code for f in report.findings] == ["setmaxnreg-ignored"]


@pytest.mark.parametrize("count", [16, 100, 264])
def test_register_counts_are_multiples_of_8_from_24_to_256(count: int) -> None:
    with pytest.raises(PtxError):
        run_ptx(dec(count), block=128)
