"""Which roles of two kernels are held against each other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from sm100sim.timing.profile import KernelProfile, compare, profile_launch, profile_text
from sm100sim.timing.profile.comparison import paired
from sm100sim.timing.profile.document import comparison_document
from sm100sim.timing.profile.roles import Role
from sm100sim.timing.profile.text import MEANINGS, comparison_text
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


def wide(warp: list[Any], grid: int, copies: int = 1) -> KernelProfile:
    """The profile of a launch of several such CTAs, so many of which share an SM."""
    return replace(profile_of(warp), grid=(grid, 1, 1), copies=copies)


@pytest.mark.parametrize(("grid", "copies"), [(1, 1), (2, 1), (6, 2), (3, 2)])
def test_cycles_of_a_path_are_its_times_by_what_one_takes(grid: int, copies: int) -> None:
    """Those of all SMs together, where a launch has several CTAs: so often it is there, too."""
    first = wide([*EXPONENTIALS, *chain(30)], grid, copies)
    found = compare(first, wide([*EXPONENTIALS], grid, copies))
    checked = 0
    for one in found.path:
        for cycles, why in zip((one.first, one.second), one.why.split("; and "), strict=True):
            told = re.match(r"([\d,.]+) times ([\d.]+) cycles", why)
            if told:
                times, each = (float(number.replace(",", "")) for number in told.groups())
                assert times * each == pytest.approx(cycles, rel=0.05)
                checked += 1
    assert checked > 2


def test_a_comparison_has_the_words_of_a_profile() -> None:
    first = profile_of([*EXPONENTIALS, *chain(30)], [op("NOP")])
    second = profile_of(chain(60), EXPONENTIALS)
    found = compare(first, second)
    whats = [one.what for one in (*found.path, *found.roles)]
    assert any(what.endswith("stall") for what in whats)
    text = comparison_text(found, most=99)
    said = re.findall(r"^    [+-][\d.]+% (.*?): [\d,]+ and", text, re.M)
    named = {what.rpartition(": ")[2] for what in said}
    assert MEANINGS["stall"] in named
    changed = {key for key, meaning in MEANINGS.items() if key != meaning}
    assert not named & (changed - {"tensor", "shared"}), "resources have names of their own"
    assert ";;" not in text


def test_printed_it_is_its_text_and_in_a_list_a_line() -> None:
    one = profile_of(EXPONENTIALS)
    assert str(one) == profile_text(one)
    found = compare(one, one)
    assert str(found) == comparison_text(found)
    assert repr([one]) == f"[KernelProfile({one.kernel!r}, 'b200', cycles={one.cycles:.0f})]"
    assert repr(found) == f"Comparison({one!r}, {one!r}, ratio=1.000)"


def test_names_of_both_come_first() -> None:
    first = (role(0, "MUFU", name="rows"), role(1, "MMAs", name="products"))
    second = (role(0, "MMAs", name="rows"), role(1, "MMAs"), role(2, "TMA stores"))
    names, products, stores = paired(first, second)
    assert (names.name, names.first, names.second) == ("rows", first[:1], second[:1])
    assert (products.job, products.first, products.second) == ("MMAs", first[1:], second[1:2])
    assert (stores.first, stores.second) == ((), second[2:])
