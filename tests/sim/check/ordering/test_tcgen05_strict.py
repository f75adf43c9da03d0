"""Tensor Memory to the letter: `Check.STRICT_LD` and `Check.STRICT_FENCE`."""

from __future__ import annotations

import pytest

from sm100sim.options import Check
from tests.sim.check.edges import MODES
from tests.sim.check.ordering.test_tcgen05 import (
    ALL_ARRIVE,
    ALL_DONE,
    BEFORE,
    COMMIT,
    COMMIT_2,
    DONE,
    FILLED,
    LD,
    MMA,
    MMA_TS,
    ST,
    USE,
    WAIT_LD,
    WAIT_ST,
    Rule,
    one,
    warp,
)

STRICT = (("used at once", USE, 1), ("waited for", WAIT_LD + USE, 0), ("never used", "", 0))


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("name", "after", "count"), STRICT, ids=[name for name, _, _ in STRICT])
def test_strict_ld_asks_for_the_wait(
    name: str, after: str, count: int, mode: str, seed: int
) -> None:
    """`USE` relies on the register dependency: silent unless strict, then one finding per load."""
    rule = Rule(name, LD + after + WAIT_LD, "")
    assert rule.run("", mode, seed).verdict == "clean"
    strict = rule.run("", mode, seed, checks=Check.ALL | Check.STRICT_LD)
    assert [finding.code for finding in strict.findings] == ["ld-not-waited"] * count
    for finding in strict.findings:
        assert finding.source.strip() == USE.strip()
        assert finding.source2.strip() == LD.strip()
        assert "missing: a tcgen05.wait::ld before the use" in finding.message


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_strict_ld_alone_watches_loads_only(mode: str, seed: int) -> None:
    rule = Rule("alone", LD + USE + WAIT_LD, "")
    report = rule.run("", mode, seed, checks=Check.STRICT_LD)
    assert [finding.code for finding in report.findings] == ["ld-not-waited"]


AFTER = "tcgen05.fence::after_thread_sync;"
FENCED = (
    (
        "st, mma reads A",
        ST + WAIT_ST + "BEFORE bar.sync 0;" + one("AFTER" + MMA_TS + COMMIT, "I") + DONE + AFTER,
    ),
    (
        "ld, mma overwrites",
        LD + WAIT_LD + "BEFORE bar.sync 0;" + one("AFTER" + MMA + COMMIT, "I") + DONE + AFTER,
    ),
    ("mma, ld by others", one(MMA + COMMIT, "I") + DONE + "AFTER" + LD + WAIT_LD),
    (
        "relaxed signals",
        ST
        + WAIT_ST
        + "BEFORE"
        + ALL_ARRIVE.replace("EDGE", "relaxed")
        + ALL_DONE
        + one("AFTER" + MMA_TS + COMMIT, "I")
        + DONE
        + AFTER,
    ),
    (
        "mmas of two warps",
        one(MMA + COMMIT + "BEFORE", "I")
        + "bar.sync 0; @!%q10 bra SECOND; AFTER"
        + MMA
        + COMMIT_2
        + "SECOND: bar.warp.sync -1;"
        + DONE
        + FILLED
        + AFTER,
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize(("name", "body"), FENCED, ids=[name for name, _ in FENCED])
def test_strict_fence_asks_for_both_fences(name: str, body: str, mode: str, seed: int) -> None:
    """A commit has the first fence built in."""
    checks = Check.ALL | Check.STRICT_FENCE
    whole = body.replace("BEFORE", BEFORE).replace("AFTER", AFTER)
    report = Rule(name, whole, "").run("", mode, seed, checks)
    assert (report.verdict, report.findings) == ("clean", ())
    for fence in {"BEFORE", "AFTER"} & {word for word in ("BEFORE", "AFTER") if word in body}:
        dropped = body.replace(fence, "").replace("BEFORE", BEFORE).replace("AFTER", AFTER)
        found = Rule(name, dropped, "").run("", mode, seed, checks).findings
        assert found
        relaxed = name == "relaxed signals" and fence == "BEFORE"
        assert {f.code for f in found} == {"race-tmem" if relaxed else "tcgen05-not-fenced"}


@pytest.mark.parametrize(("mode", "seed"), MODES)
def test_a_fence_in_between_is_not_asked_for(mode: str, seed: int) -> None:
    """Warp 1 passes on what all warps signalled: order of execution is transitive without
    fences."""
    relay = (
        ST
        + WAIT_ST
        + BEFORE
        + "@%q9 bar.arrive 3, 128;"
        + warp(1, "bar.sync 3, 128; bar.sync 1, 64;", "RELAY")
        + warp(0, "bar.sync 1, 64;" + AFTER + one(MMA_TS + COMMIT, "I"), "LAST")
        + DONE
        + AFTER
    )
    report = Rule("relay", relay, "").run("", mode, seed, Check.ALL | Check.STRICT_FENCE)
    assert (report.verdict, report.findings) == ("clean", ())
