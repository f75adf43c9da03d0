"""Timelines of small programs: the two accesses of a planted race are marked where they happen."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sm100sim.options import Check
from sm100sim.report import EventKind, Report
from sm100sim.timeline import Row, all_rows, draw, picture
from sm100sim.timeline_marks import access_marks
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, only, wait

ROOT = Path(__file__).resolve().parents[2]

WRITER, READER = 2, 1
DELAY = "mov.u32 %r7, 0;\nD: add.u32 %r7, %r7, 1; setp.lt.u32 %q3, %r7, 50; @%q3 bra D;\n"
RACE = (
    "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x; shr.u32 %r4, %r3, 5;\n"
    "bar.sync 0, 96;\n"
    f"setp.ne.u32 %q0, %r4, {WRITER}; @%q0 bra OTHER;\n"
    "st.shared.b32 [%r1+16], 7;\n"
    f"OTHER: setp.ne.u32 %q1, %r4, {READER}; @%q1 bra END;\n{DELAY}"
    "ld.shared.b32 %r5, [%r1+16];\nEND: bar.sync 0, 96;\n"
)
"""Warp 2 writes what warp 1 reads some hundred cycles later; nothing orders the two."""

COPY_RACE = (
    "mov.u32 %r1, dyn;\n"
    + only(0, "mbarrier.init.shared.b64 [%r1], 1;\n", "I")
    + "fence.mbarrier_init.release.cluster;\nbar.sync 0, 64;\n"
    + only(
        0,
        "mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 16;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+16], "
        "[%p0], 16, [%r1];\n" + wait("%r1", 0, "W"),
        "A",
    )
    + only(32, "\nld.shared.b32 %r5, [%r1+16];\n", "B")
    + "bar.sync 0, 64;\n"
)
"""A bulk copy, and a read by a warp that does not wait for it."""


def line_of(report: Report, finding: int, text: str) -> int:
    places = report.findings[finding]
    (line,) = [
        n for n, s in ((places.line, places.source), (places.line2, places.source2)) if text in s
    ]
    return line


def run(body: str, *arguments: Any, block: int = 96, **options: Any) -> Report:
    return run_ptx(
        body,
        *arguments,
        block=block,
        shared=SMEM,
        smem=1024,
        trace_cluster=0,
        checks=Check.RACES,
        **options,
    )


@pytest.fixture(scope="module")
def race() -> Report:
    report = run(RACE)
    assert [f.code for f in report.findings] == ["race-shared"]
    return report


def access(report: Report, warp: int) -> int:
    """The cycle at which a warp executes its only access of the race."""
    lines = {report.findings[0].line, report.findings[0].line2}
    own = [e for e in report.events if e.kind is EventKind.ACCESS and e.warp == warp]
    (event,) = [e for e in own if e.line in lines]
    return event.start


def test_both_accesses_are_found_at_their_warps_and_cycles(race: Report) -> None:
    marks = {mark.source: mark for mark in access_marks(race)}
    assert set(marks) == {WRITER, READER}
    assert marks[WRITER].time == access(race, WRITER)
    assert marks[READER].time == access(race, READER) > marks[WRITER].time + 50
    assert str(line_of(race, 0, "st.shared")) in marks[WRITER].label
    assert str(line_of(race, 0, "ld.shared")) in marks[READER].label


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_run_numbers_the_marks(seed: int) -> None:
    """Whichever warp comes first in a random run, it is the 1st, at the same modelled cycle."""
    report = run(RACE, mode="random", seed=seed)
    first, second = access_marks(report)
    assert first.label.startswith("1st: ")
    assert second.label.startswith("2nd: ")
    assert second.source == report.findings[0].warp
    assert {first.source, second.source} == {WRITER, READER}
    for mark in (first, second):
        assert mark.time == access(report, int(mark.source))


def test_a_copy_is_marked_on_the_row_of_the_copies() -> None:
    source = aligned(16, "uint32")
    report = run(COPY_RACE, source, block=64)
    assert [f.code for f in report.findings] == ["race-shared"]
    marks = {mark.source: mark for mark in access_marks(report)}
    assert set(marks) == {"tma", 1}
    (copy,) = [e for e in report.events if e.kind is EventKind.TMA_LOAD]
    assert marks["tma"].time == copy.start
    assert marks[1].time == access(report, 1)


@pytest.mark.slow
def test_the_picture_shows_the_marks_where_they_are(race: Report) -> None:
    rows = all_rows(race)
    marks = access_marks(race)
    axes: Any
    (axes,) = picture(race, rows, marks).axes
    names = [tick.get_text() for tick in axes.get_yticklabels()]
    points = {
        line.get_label(): (line.get_xdata()[0], names[int(line.get_ydata()[0])])
        for line in axes.lines
        if line.get_marker() == "D"
    }
    assert points == {mark.label: (mark.time, f"warp {mark.source}") for mark in marks}
    written = {text.get_text(): text.xy for text in axes.texts}
    assert set(written) == {mark.label for mark in marks}
    dashed = sorted(line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--")
    assert dashed == sorted(mark.time for mark in marks)


def test_a_row_that_is_not_shown_takes_its_mark_along(race: Report) -> None:
    (axes,) = picture(race, [Row("reader", READER)], access_marks(race)).axes
    assert len(axes.texts) == 1


@pytest.mark.slow
def test_one_call_draws_the_report(race: Report, tmp_path: Path) -> None:
    text = race.draw(tmp_path / "race.svg").read_text()
    assert text.startswith("<?xml")
    assert "race-shared" in text
    for mark in access_marks(race):
        assert mark.label in text
    plain = draw(race, tmp_path / "plain.svg").read_text()
    assert "1st: " not in plain
    clean = run("mov.u32 %r1, 3;")
    assert clean.draw(tmp_path / "clean.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(
    race: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'sm100sim\[viz\]'"):
        race.draw(tmp_path / "race.svg")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any("matplotlib" in name for name in extras["optional-dependencies"]["viz"])


def test_what_cannot_be_marked_says_why(race: Report, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="finding: 1 of 1 findings"):
        race.draw(tmp_path / "x.svg", finding=1)
    untraced = run_ptx(RACE, block=96, shared=SMEM, smem=1024, checks=Check.RACES)
    with pytest.raises(ValueError, match="no timeline was recorded"):
        untraced.draw(tmp_path / "x.svg")
    elsewhere = run_ptx(
        "mov.u32 %r9, %ctaid.x; setp.eq.u32 %q9, %r9, 0; @%q9 bra END2;\n" + RACE + "END2:",
        block=96,
        shared=SMEM,
        smem=1024,
        checks=Check.RACES,
        grid=(2, 1, 1),
        trace_cluster=0,
    )
    with pytest.raises(ValueError, match="not on the timeline"):
        elsewhere.draw(tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


def test_accesses_are_recorded_for_the_race_checker_only() -> None:
    report = run_ptx(RACE, block=96, shared=SMEM, smem=1024, trace_cluster=0)
    assert report.events
    assert all(e.kind is not EventKind.ACCESS for e in report.events)
