"""The page of two profiles: what differs, and what is behind it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from benchmarks.timing.profiles import OURS, page, reason
from sm100sim.timing.profile import KernelProfile, compare, profile_launch
from sm100sim.timing.profile.handovers import Step
from sm100sim.timing.records import LaunchTrace
from testing.clocked import Program, op
from testing.ptx_hashes import RECORD


def profiled(exponentials: int, ranks: int) -> KernelProfile:
    """CTAs of a warp that computes exponentials, and of another that waits for nothing."""
    program = Program()
    for rank in range(ranks):
        program.warp(0, *[op("MUFU.EX2 R0, R1", 2)] * exponentials, rank=rank)
        program.warp(1, *[op("FFMA R0, R1, R2, R0", 4)] * 10, rank=rank)
    launch = LaunchTrace((2, 1, 1), (64, 1, 1), (ranks, 1, 1), 1000, (program.trace(),))
    return profile_launch(launch, "h100", draws=3)


def test_the_page_names_what_differs_and_by_how_much() -> None:
    ours, theirs = profiled(200, 1), profiled(100, 2)
    text = page(ours, theirs, "f00d")
    assert "## The 3 largest differences" in text
    assert "SHA-256\nf00d." in text
    assert re.search(r"Ratio, draw by draw: (1\.9|2\.0)", text)
    first = re.search(r"1\. \*\*(.*?): ([\d,]+) cycles more\*\* \(\+(\d+\.\d)%", text)
    assert first
    assert first[1] == "A full pipe"
    assert 400 < int(first[2].replace(",", "")) < 700  # the rest issues and stalls
    assert "| MUFU | " in text
    assert "executed: MUFU.EX2 200 and 100" in text
    why = r"Why: exponentials .*: MUFU is busy in (\d+)% of the cycles, beside (\d+)%, its work "
    busy = re.search(why, text)
    assert busy
    assert int(busy[1]) > int(busy[2])
    assert "Why: not known." in text, "of stalls no figure says more"
    assert "two CTAs share each MMA" not in text, "nothing of it is in these tables"
    assert "/site-packages/" not in text
    assert max(len(line) for line in text.partition("```text")[2].splitlines()) <= 132


def test_the_page_of_equals_has_no_differences() -> None:
    text = page(profiled(50, 1), profiled(50, 1), "f00d")
    assert "Ratio, draw by draw: 1.000 (1.000 to 1.000)" in text
    assert "1. **" not in text
    assert "In words" not in text


def test_a_reason_is_given_only_where_figures_bear_it_out() -> None:
    found = compare(profiled(200, 1), profiled(100, 2), work=(1, 2))
    assert "beside" in reason(found, "pipe")
    turned = compare(profiled(100, 2), profiled(200, 1), work=(2, 1))
    assert reason(turned, "pipe") == ""


def through(one: KernelProfile, tensor: float, softmax: float) -> KernelProfile:
    """The profile with other shares of its path, and warps that stall for 100 cycles in either."""
    steps = (
        Step("tensor core", "works", tensor * one.cycles, 1),
        Step("softmax", "stall", softmax * one.cycles, 1),
    )
    waits = {"stall": 200.0}
    roles = (replace(one.roles[0], name="softmax", members=(0, 1), waits=waits),)
    return replace(one, steps=steps, roles=roles)


def test_a_path_through_other_warps_is_said_to_be_that() -> None:
    one = profiled(200, 1)
    both = compare(one, one)
    ours, theirs = through(one, 0.9, 0.1), through(one, 0.4, 0.6)
    said = reason(replace(both, first=ours, second=theirs), "stall")
    assert said.startswith("another way of the path, not more of it in the warps")
    assert "a softmax warp has 100 cycles of it beside 100" in said
    assert "softmax for 10% of the time, through the tensor core for 90%" in said
    assert "FlashAttention-4's for 60% and 40%" in said
    assert reason(replace(both, first=theirs, second=ours), "stall"), "and the other way round"
    slower = replace(theirs, roles=(replace(theirs.roles[0], waits={"stall": 9999.0}),))
    assert reason(replace(both, first=ours, second=slower), "stall") == "", "it stalls itself"
    assert reason(replace(both, first=ours, second=ours), "stall") == ""


def test_the_page_is_of_today_s_kernel() -> None:
    digest = json.loads(RECORD.read_text())["sha256"][OURS]
    assert digest in Path("docs/profile_d128.md").read_text()
