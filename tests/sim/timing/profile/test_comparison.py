"""Which roles of two kernels are held against each other."""

from __future__ import annotations

from dataclasses import replace

from sm100sim.timing.profile import KernelProfile, compare, profile_launch
from sm100sim.timing.profile.comparison import paired
from sm100sim.timing.profile.document import comparison_document
from sm100sim.timing.profile.roles import Role
from sm100sim.timing.profile.text import comparison_text
from sm100sim.timing.records import ClusterTrace, LaunchTrace
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import Step, chain, mma

EXPONENTIALS = [op("MUFU.EX2 R0, R1", 2)] * 40
PRODUCTS: list[Step] = [mma(64)] * 20
IDLE = [op("NOP")]


def role(warp: int, *jobs: str, name: str = "") -> Role:
    return Role(name or f"warp {warp}", (warp,), (warp,), 1, {}, bool(name), {}, jobs)


def on_b200(program: Program) -> ClusterTrace:
    """The program's trace as code of that chip."""
    trace = program.trace()
    return replace(trace, kernel=replace(trace.kernel, arch="sm_100a"))


def profile_of(*warps: list) -> KernelProfile:  # type: ignore[type-arg]  # instructions, steps
    program = Program()
    for number, given in enumerate(warps):
        program.warp(number, *given)
    block = (32 * len(warps), 1, 1)
    traced = LaunchTrace((1, 1, 1), block, (1, 1, 1), 1000, (on_b200(program),))
    return profile_launch(traced, "b200", draws=1)


def test_roles_correspond_by_what_they_do() -> None:
    """In the second kernel the warps of one number do something else."""
    first = profile_of(EXPONENTIALS, PRODUCTS, IDLE)
    second = profile_of(IDLE, EXPONENTIALS, PRODUCTS, chain(50))
    found = compare(first, second)
    both = [(pair.job, pair.first[0].name, pair.second[0].name)
            for pair in found.pairs if pair.first and pair.second]  # fmt: skip
    assert both == [
        ("MUFU", "warp 0", "warp 1"), ("MMAs", "warp 1", "warp 2"), ("idle", "warp 2", "warp 0"),
    ]  # fmt: skip
    text = comparison_text(found)
    assert "    MMAs (warp 1; warp 2)" in text
    assert "  roles of the second that nothing is held against: other work (warp 3)" in text
    assert "roles of the first that" not in text
    assert not any(one.what.startswith("idle") for one in found.roles)
    document = comparison_document(found)["pairs"]
    assert document[0] == {"job": "MUFU", "first": ["warp 0"], "second": ["warp 1"]}


def test_one_role_corresponds_to_several_of_the_same_work() -> None:
    first = profile_of(EXPONENTIALS, [*EXPONENTIALS, *chain(20)])
    second = profile_of(EXPONENTIALS)
    (pair,) = paired(first.roles, second.roles)
    assert pair.name == "MUFU (warp 0 and warp 1; warp 0)"
    differences = {one.what: one for one in compare(first, second).roles}
    issued = differences[f"{pair.name}: issued"]
    assert issued.first / issued.second == (40 + 60) / 2 / 40


def test_names_of_both_come_first() -> None:
    first = (role(0, "MUFU", name="rows"), role(1, "MMAs", name="products"))
    second = (role(0, "MMAs", name="rows"), role(1, "MMAs"), role(2, "TMA stores"))
    names, products, stores = paired(first, second)
    assert (names.name, names.first, names.second) == ("rows", first[:1], second[:1])
    assert (products.job, products.first, products.second) == ("MMAs", first[1:], second[1:2])
    assert (stores.first, stores.second) == ((), second[2:])
