"""Profiles of launches, from PTX to the text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sm100sim
from sm100sim.timing.profile import KernelProfile, compare, profile_text
from sm100sim.timing.profile.document import comparison_document, profile_document
from sm100sim.timing.profile.text import MEANINGS, comparison_text
from sm100sim.timing.profile.views.tracks import KINDS
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.walk import Unmatched
from testing.harness import aligned, aligned_copy, run_ptx

LOOP = """mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %p0, %rd1;
ld.global.f32 %f1, [%rd2];
add.f32 %f2, %f1, %f1; mul.f32 %f3, %f1, %f1; add.f32 %f4, %f3, %f1;
mov.u32 %r9, %ntid.x; shr.u32 %r9, %r9, 3;
mov.u32 %r7, 0;
L: .pragma "nounroll"; {body}
add.u32 %r7, %r7, 1; setp.lt.u32 %q3, %r7, {times}; @%q3 bra L;
add.f32 %f1, %f1, %f2; add.f32 %f3, %f3, %f4; add.f32 %f1, %f1, %f3;
st.global.f32 [%rd2], %f1;
"""
EXPONENTIALS = "".join(f"ex2.approx.ftz.f32 %f{k}, %f{k};\n" for k in (1, 2, 3, 4)) * 4
SQUARES = "".join(f"fma.rn.f32 %f{k}, %f{k}, %f{k}, %f{k};\n" for k in (1, 2, 3, 4)) * 4


def launch(body: str = EXPONENTIALS, times: int = 20, grid: int = 2) -> np.ndarray:
    values = aligned_copy(np.linspace(-1, 1, 256, dtype=np.float32))
    run_ptx(LOOP.format(body=body, times=times), values, grid=(grid, 1, 1), block=256)
    return values


def profiled(call: Callable[[], object] = launch, **options: Any) -> KernelProfile:
    (found,) = sm100sim.profile(call, draws=2, **options)
    return found


@pytest.fixture(scope="module")
def exponentials() -> KernelProfile:
    return profiled()


@pytest.fixture(scope="module")
def squares() -> KernelProfile:
    return profiled(lambda: launch(SQUARES))


def test_a_kernel_of_exponentials_is_limited_by_mufu(exponentials: KernelProfile) -> None:
    assert (exponentials.chip, exponentials.limit) == ("b200", "MUFU")
    assert exponentials.cycles >= 20 * 16 * 2 * 8  # two warps a sub-partition
    assert exponentials.band.low <= exponentials.band.median <= exponentials.band.high
    assert exponentials.operations["MUFU"] == 8 * 20 * 16
    assert exponentials.source == ()
    assert any("ex2.approx" in spot.place for spot in exponentials.ptx)
    assert any("MUFU.EX2" in spot.place for spot in exponentials.sass)
    assert sum("ex2.approx" in spot.place for spot in exponentials.path_spots) > 3
    assert exponentials.occupancy.warps == 8 * exponentials.occupancy.ctas


def test_a_chain_of_few_warps_is_limited_by_latency(squares: KernelProfile) -> None:
    assert squares.use("MUFU") == 0
    assert squares.use("FMA") < 1


def test_the_invariants_of_a_profile(exponentials: KernelProfile) -> None:
    for role in exponentials.roles:
        assert sum(role.waits.values()) == pytest.approx(role.cycles)
    assert all(use.fullest <= 1 for use in exponentials.uses)
    path = exponentials.path
    assert all(a.end == b.start for a, b in pairwise(path))
    assert path[-1].end - path[0].start == exponentials.cycles
    assert sum(step.cycles for step in exponentials.steps) == pytest.approx(exponentials.cycles)


@pytest.mark.parametrize("chip", ["b200", "gb200"])
def test_values_never_depend_on_the_model(chip: str) -> None:
    plain = launch()
    kept: list[np.ndarray] = []
    profiled(lambda: kept.append(launch()), chip=chip)
    assert kept[0].tobytes() == plain.tobytes()


@pytest.mark.slow
def test_launches_alike_have_one_profile() -> None:
    def several() -> None:
        launch()
        launch(times=3)
        launch()

    found = sm100sim.profile(several, draws=1)
    assert [one.launches for one in found] == [2, 1]
    assert found[0].cycles > found[1].cycles


@pytest.mark.slow
def test_roles_are_warps_of_the_same_code() -> None:
    split = (
        "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mul.wide.u32 %rd1, %r1, 4;\n"
        "add.u64 %rd2, %p0, %rd1; ld.global.f32 %f1, [%rd2];\n"
        "setp.lt.u32 %q0, %r2, 2; @%q0 bra FIRST;\n"
        + "ex2.approx.ftz.f32 %f1, %f1;\n" * 30
        + "bra END;\nFIRST:\n"
        + "fma.rn.f32 %f1, %f1, %f1, %f1;\n" * 30
        + "END: st.global.f32 [%rd2], %f1;\n"
    )

    def call() -> None:
        run_ptx(split, np.ones(256, np.float32), block=256)

    found = profiled(call)
    assert [(role.name, role.warps) for role in found.roles] == [
        ("warps 0-1", (0, 1)), ("warps 2-7", (2, 3, 4, 5, 6, 7)),
    ]  # fmt: skip
    named = profiled(call, roles={"squares": (0, 1), "exponentials": range(2, 8)})
    assert [role.name for role in named.roles] == ["squares", "exponentials"]
    with pytest.raises(ValueError, match="roles: x has warp 9; the CTA has 0-7"):
        profiled(call, roles={"x": (9,)})
    with pytest.raises(ValueError, match="roles: warp 1 is of a and of b"):
        profiled(call, roles={"a": (0, 1), "b": (1,)})


def test_a_loop_that_was_unrolled_is_doubted(exponentials: KernelProfile) -> None:
    """Where its count is not known, nothing in machine code tells how often its body ran."""
    text = LOOP.replace('.pragma "nounroll";', "").format(body=EXPONENTIALS, times="%r9")

    def call() -> None:
        run_ptx(text, np.linspace(-1, 1, 256, dtype=np.float32), block=256)

    found = profiled(call)
    assert found.operations["MUFU"] < 8 * 32 * 16, "it is matched by now"
    (doubt,) = found.doubts
    assert "ran 256 times, and their machine code only" in doubt
    assert f"not certain: {doubt}" in profile_text(found)
    assert exponentials.doubts == ()


def test_the_text_says_what_its_cycles_are(exponentials: KernelProfile) -> None:
    text = profile_text(exponentials, most=2)
    assert "predicted cycles (sm100sim.timing; nothing was measured on this chip)" in text
    assert "limited by MUFU" in text
    for words in ("achieved over peak", "roles", "critical path of", "occupancy: 8 CTAs"):
        assert words in text
    shares = re.search(r"warps 0-7 \(MUFU, .*\): [\d,]+ a warp: (.*)", text)
    assert shares
    assert sum(int(n) for n in re.findall(r"(\d+)%", shares[1])) == pytest.approx(100, abs=4)


def test_a_profile_is_plain_data_too(exponentials: KernelProfile, squares: KernelProfile) -> None:
    document = json.loads(json.dumps(profile_document(exponentials)))
    assert document["cycles"] == exponentials.cycles
    assert document["limit"] == "MUFU"
    assert document["roles"][0]["waits"]["issued"] > 0
    compared = json.loads(json.dumps(comparison_document(compare(exponentials, squares))))
    assert compared["resources"][0]["what"] == "MUFU"


def test_two_kernels_are_compared_draw_by_draw(
    exponentials: KernelProfile, squares: KernelProfile
) -> None:
    found = compare(exponentials, squares)
    assert found.ratio.low > 1
    assert found.cycles[0] / found.cycles[1] == pytest.approx(exponentials.cycles / squares.cycles)
    largest = found.resources[0]
    assert (largest.what, largest.second) == ("MUFU", 0)
    assert "MUFU.EX2" in largest.why
    text = comparison_text(found)
    assert "draw by draw" in text
    assert ";;" not in text
    assert "MUFU.EX2 2,560 and 0" not in text or found.cycles[0] > 0
    same = compare(squares, squares)
    assert (same.ratio.low, same.ratio.high) == (1, 1)
    assert same.resources == same.path == same.roles == ()


def test_twice_the_work_of_a_cluster_is_half_the_cost(squares: KernelProfile) -> None:
    assert compare(squares, squares, work=(2, 1)).ratio.median == 0.5
    with pytest.raises(ValueError, match="work"):
        compare(squares, squares, work=(0, 1))
    (other,) = sm100sim.profile(launch, draws=1)
    with pytest.raises(ValueError, match="second: 1 draws of b200 with seed 0; a comparison needs"):
        compare(squares, other)
    with pytest.raises(ValueError, match="second: 2 draws of b200 with seed 1; a comparison needs"):
        compare(squares, replace(squares, seed=1))


def test_an_unknown_resource_is_refused(squares: KernelProfile) -> None:
    assert squares.use("FP64") == 0
    for name, near in (("mufu", "MUFU"), ("tensr", "tensor"), ("", "issue, FMA")):
        with pytest.raises(ValueError, match=f"name: '{name}'; nearest supported choice: {near}"):
            squares.use(name)


def test_launches_with_more_to_do_are_others() -> None:
    """The same kernel and grid, and twice as often; what one of them takes is not the other's."""

    def both(*first: int) -> list[KernelProfile]:
        body = LOOP.replace("{times}", "%r9").replace("shr.u32 %r9, %r9, 3;", "{count}")
        body = body.format(body="st.global.f32 [%rd2], %f1;", count="ld.global.u32 %r9, [%p1];")

        def call() -> None:
            for times in first:
                # Rows that begin elsewhere in a line are other accesses, five cycles of them.
                values, count = aligned(256, np.float32), aligned_copy(np.array([times], np.uint32))
                run_ptx(body, values, count, block=256)

        return sm100sim.profile(call, draws=1)

    few, many = both(4, 40, 4)
    assert (few.launches, many.launches) == (2, 1)
    assert many.cycles > 2 * few.cycles
    other, same = both(40, 4)
    assert (other.cycles, same.cycles) == (many.cycles, few.cycles)


def test_what_the_l2_has_no_room_for_comes_from_memory() -> None:
    """As a caller says, or by how much the launch reads; the text says it."""
    near, far = (profiled(cold=cold) for cold in (False, True))
    assert (near.cold, far.cold) == (False, True)
    assert profiled().cold is False, "256 numbers have room"
    assert "the launch fills the chip once; the L2 has what it reads" in profile_text(near)
    assert "the launch fills the chip once; nothing is in the L2 before it" in profile_text(far)


@pytest.mark.slow
def test_all_clusters_may_be_looked_at() -> None:
    """The slowest is shown: here the second, which takes the loop more often."""
    body = LOOP.format(body=EXPONENTIALS, times="%r9").replace(
        "shr.u32 %r9, %r9, 3;", "mov.u32 %r9, %ctaid.x; add.u32 %r9, %r9, 2;"
    )

    def call() -> None:
        run_ptx(body, np.ones(256, np.float32), grid=(3, 1, 1), block=256)

    first, slowest = profiled(call), profiled(call, clusters=None)
    assert slowest.cycles > first.cycles
    assert slowest.detail.trace.clusters == (2,)
    assert first.launch is None
    assert slowest.launch is not None
    assert slowest.launch.band.median > slowest.band.median
    alone = profiled(partial(run_ptx, body, np.ones(256, np.float32), block=256), clusters=None)
    assert alone.launch is not None
    assert alone.draws == alone.launch.longest, "a launch of one cluster is replayed once a draw"
    assert "the launch takes" in profile_text(slowest)


def test_ptx_newer_than_an_assembler_goes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    from sm100sim.timing.profile import call as module

    tried: list[str] = []

    def old(ptx: str, *arguments: Any, ptxas: str, **options: Any) -> object:
        tried.append(ptxas)
        if ptxas == "old":
            raise ValueError("ptxas refuses the PTX: Unsupported .version 9.9; current is '9.0'")
        return compiled(ptx, *arguments, ptxas=None, **options)

    monkeypatch.setattr(module, "compiled", old)
    monkeypatch.setattr(module, "assemblers", lambda: ["old", "new"])
    assert profiled().compiler
    assert tried == ["old", "new"]
    monkeypatch.setattr(module, "assemblers", lambda: ["new", "old"])
    with pytest.raises(ValueError, match=r"Unsupported .version 9.9"):
        profiled(ptxas="old")


def test_draws_and_chips_are_checked() -> None:
    with pytest.raises(ValueError, match="draws: 0"):
        sm100sim.profile(launch, draws=0)
    with pytest.raises(ValueError, match="chip: 'a100' is none of"):
        sm100sim.profile(launch, chip="a100")
    with pytest.raises(ValueError, match="clusters: the launch has none of those; it has 0 to 1"):
        sm100sim.profile(launch, clusters=(7, 8))
    body = LOOP.format(body=SQUARES, times=2)
    words = r"chip: h200 is sm_90a, and the PTX is for sm_100a; nearest .* b200 or gb200; "
    words += r".* a front end that is asked for sm_90a code"
    with pytest.raises(ValueError, match=words):
        sm100sim.profile(partial(run_ptx, body, np.ones(64, np.float32), block=64), chip="h200")


def test_a_kernel_that_cannot_be_matched_stops_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The way of the run through other machine code ends; the line is named."""
    from sm100sim.timing.profile import call as module

    def other(ptx: str, *arguments: Any, **options: Any) -> object:
        changed = re.sub(r"bar\.sync 0;", "", ptx)
        return compiled(changed, *arguments, **options)

    monkeypatch.setattr(module, "compiled", other)

    def synchronised() -> None:
        launch(body="bar.sync 0;\n" + SQUARES)

    with pytest.raises(Unmatched, match="bar"):
        profiled(synchronised)


def test_waits_for_an_mma_are_of_no_one_kind() -> None:
    """A tcgen05.mma's descriptors count with a wgmma's results: a B200 has no wgmma."""
    assert MEANINGS["tensor"] == "registers of an MMA"
    assert [kind for kind, reasons in KINDS.items() if "tensor" in reasons] == ["MMA registers"]
