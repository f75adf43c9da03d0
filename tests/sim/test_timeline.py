"""Timelines of small programs: the two accesses of a planted race are marked where they happen."""

from __future__ import annotations

import json
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sm100sim.options import Check
from sm100sim.report import EventKind, Report
from sm100sim.timeline import Row, all_rows, draw, picture, to_perfetto, warp_spans
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


# ---- Perfetto's trace-event format ---------------------------------------------------------------
NAMES = {(0, 0): "idle", (0, WRITER): "producer", (0, READER): "consumer"}


def entries_of(report: Report, path: Path, **options: Any) -> list[dict[str, Any]]:
    data = json.loads(to_perfetto(report, path, **options).read_text())
    assert set(data) == {"traceEvents", "displayTimeUnit"}
    entries: list[dict[str, Any]] = data["traceEvents"]
    return entries


def test_perfetto_entries_have_their_fields(race: Report, tmp_path: Path) -> None:
    for entry in entries_of(race, tmp_path / "t.json", names=NAMES):
        assert entry["ph"] in ("M", "X", "i")
        assert isinstance(entry["pid"], int)
        assert isinstance(entry["tid"], int)
        assert isinstance(entry["name"], str)
        if entry["ph"] != "M":
            assert entry["ts"] >= 0
        if entry["ph"] == "X":
            assert entry["dur"] >= 0
        if entry["ph"] == "i":
            assert entry["s"] == "t"


def test_perfetto_tracks_are_named_after_roles_and_hold_their_spans(
    race: Report, tmp_path: Path
) -> None:
    entries = entries_of(race, tmp_path / "t.json", names=NAMES)
    tracks = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in entries if e["name"] == "thread_name"
    }
    assert list(tracks.values()) == ["idle", "consumer", "producer", "tensor pipe", "TMA"]
    assert [e["args"]["name"] for e in entries if e["name"] == "process_name"] == ["CTA rank 0"]
    for warp in (0, READER, WRITER):
        (track,) = [k for k, name in tracks.items() if name == NAMES[0, warp]]
        spans = [
            (e["name"], e["ts"], e["ts"] + e["dur"], e["args"]["ptx_line"])
            for e in entries
            if e["ph"] == "X" and (e["pid"], e["tid"]) == track
        ]
        assert spans == [(s.label, s.start, s.end, s.line) for s in warp_spans(race, warp)]
        assert spans
        for before, after in pairwise(spans):
            assert before[2] <= after[1]


def test_perfetto_shows_the_finding_at_its_warp_and_cycle(race: Report, tmp_path: Path) -> None:
    entries = entries_of(race, tmp_path / "t.json")
    (instant,) = [e for e in entries if e["ph"] == "i"]
    named = {e["tid"]: e["args"]["name"] for e in entries if e["name"] == "thread_name"}
    finding = race.findings[0]
    assert instant["name"] == "race-shared"
    assert named[instant["tid"]] == f"warp {finding.warp}"
    assert instant["args"] == {"ptx_line": finding.line, "message": finding.message}
    assert instant["ts"] == access(race, int(finding.warp or 0))


def test_perfetto_keeps_the_ctas_of_a_cluster_apart(tmp_path: Path) -> None:
    report = run(
        "barrier.cluster.arrive; barrier.cluster.wait;", block=64, grid=(2, 1, 1), cluster=(2, 1, 1)
    )
    entries = entries_of(report, tmp_path / "t.json")
    assert {e["pid"] for e in entries} == {0, 1}
    names = [e["args"]["name"] for e in entries if e["name"] == "thread_name"]
    assert len(set(names)) == len(names) == 8
