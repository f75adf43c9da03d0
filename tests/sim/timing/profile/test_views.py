"""Timelines as files: what ui.perfetto.dev loads, a page, a picture."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sm100sim.timing.profile import KernelProfile, profile_launch
from sm100sim.timing.profile.views import write_timeline
from sm100sim.timing.profile.views.perfetto import BIN
from sm100sim.timing.profile.views.picture import COLOURS, COLUMNS, PALETTE, bars_of
from sm100sim.timing.profile.views.tracks import KINDS, path_track, tracks_of
from sm100sim.timing.records import Action, DynamicEvent, LaunchTrace
from testing.clocked import Program, op
from tests.sim.timing.profile.programs import handover, loads


@pytest.fixture(scope="module")
def found() -> KernelProfile:
    """A handover, work for every sub-partition, and copies."""
    copy = DynamicEvent(Action.COPY_LOAD, 1, size=8192, shape=(64, 128))
    program = handover(first=300)
    for warp in range(3, 8):
        program.warp(warp, *[op("MUFU.EX2 R0, R1", 2)] * 40, *[loads(4)] * 20)
    program.warp(8, *[(op("UTMALDG.4D [UR4], [UR6]"), copy)] * 3)
    return profiled(program)


def profiled(program: Program) -> KernelProfile:
    launch = LaunchTrace((1, 1, 1), (288, 1, 1), (1, 1, 1), 100_000, (program.trace(),))
    return profile_launch(launch, "h100", draws=1)


def test_perfetto_s_document(found: KernelProfile, tmp_path: Path) -> None:
    """The trace event format: complete slices that nest, names, counters, arrows in pairs."""
    document = json.loads(write_timeline(found, tmp_path / "deep" / "a.json").read_text())
    entries = document["traceEvents"]
    assert {entry["ph"] for entry in entries} == {"M", "X", "C", "s", "f"}
    named = {(e["pid"], e["tid"]) for e in entries if e["name"] == "thread_name"}
    slices = [entry for entry in entries if entry["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in slices} == named
    for place in named:
        mine = sorted((e["ts"], e["dur"]) for e in slices if (e["pid"], e["tid"]) == place)
        assert all(dur > 0 for _, dur in mine)
        assert all(a + d <= b for (a, d), (b, _) in pairwise(mine))
    first = [e for e in entries if e["ph"] == "s"]
    assert sorted(e["id"] for e in first) == sorted(e["id"] for e in entries if e["ph"] == "f")
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in entries if e["name"] == "thread_name"}
    arrows = {e["ph"]: names[e["pid"], e["tid"]] for e in entries if e["ph"] in "sf"}
    assert arrows == {"s": "warp 0", "f": "warp 1"}
    assert all(0 <= e["args"]["share"] <= 1 for e in entries if e["ph"] == "C")
    counted = sum(e["args"]["share"] * BIN for e in entries if e["ph"] == "C")
    assert counted == pytest.approx(len(found.detail.op), rel=0.01)


def test_warps_compete_for_slots(found: KernelProfile) -> None:
    """Warps 3 and 7 lie on one sub-partition; the others of theirs have ended by then."""
    tracks = {t.name: t for t in tracks_of(found.detail, found.roles)}
    assert tracks["warp 7"].cycles("pipe") > 100
    assert sum(tracks["warp 7"].cycles(kind) for kind in KINDS) == tracks["warp 7"].end[-1]
    assert tracks["TMA load"].labels == ("load",)
    other = tracks_of(found.detail, found.roles, lambda event: f"box of {event.size}")
    assert {t.name: t for t in other}["TMA load"].labels == ("box of 8192",)


def test_the_critical_path_is_a_track(found: KernelProfile) -> None:
    """Warp 0 works, warp 1 waits for it; the parts fill the run."""
    track = path_track(found.path, found.roles)
    assert (track.start[0], track.end[-1]) == (0, found.cycles)
    assert (track.start[1:] == track.end[:-1]).all()
    shares = {label: track.cycles(label) for label in track.labels}
    assert max(shares, key=lambda label: shares[label]) == "path: warp 0"
    for step in found.steps:
        assert f"path: {step.who}" in shares


class Tags(HTMLParser):
    """Names of the elements of a page."""

    def __init__(self) -> None:
        """No elements yet."""
        super().__init__()
        self.met: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a name."""
        self.met.append(tag)
        assert not [value for name, value in attrs if name in ("src", "href")], "from elsewhere"


def test_a_page_needs_nothing_from_elsewhere(found: KernelProfile, tmp_path: Path) -> None:
    text = write_timeline(found, tmp_path / "a.html").read_text()
    tags = Tags()
    tags.feed(text)
    assert {"canvas", "script", "pre", "style"} <= set(tags.met)
    data = re.search(r"const DATA = (\{.*?\});\n", text)
    assert data
    document = json.loads(data[1])
    assert document["cycles"] == found.cycles
    for track in document["tracks"]:
        assert len(track["start"]) == len(track["length"]) == len(track["label"])
        assert all(label in document["colours"] for label in track["labels"])
        assert sum(track["start"]) + track["length"][-1] <= found.cycles + 1000


BROWSER = """
const heard = {}, drawn = [], tipped = {};
const context = {fillText: () => 0, fillRect: (...box) => drawn.push(box)};
const element = {clientWidth: 1000, width: 0, getContext: () => context,
                 addEventListener: (name, answer) => { heard[name] = answer; }};
globalThis.document = {getElementById: id => id === "tip" ? tipped : element};
globalThis.window = {addEventListener: (name, answer) => { heard[name] = answer; }};
"""
ASKED = """
const all = drawn.length;
heard.mousemove({offsetX: 200, offsetY: 30});
const before = tipped.textContent;
heard.wheel({offsetX: 300, offsetY: 30, deltaY: -800, preventDefault: () => 0});
heard.mousedown({offsetX: 500});
heard.mousemove({offsetX: 400, offsetY: 30});
heard.mouseup();
console.log(JSON.stringify({all, first: before, from, to, second: tipped.textContent}));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_s_script_draws_and_answers(found: KernelProfile, tmp_path: Path) -> None:
    """Every span is drawn; the wheel and the mouse change what is shown."""
    text = write_timeline(found, tmp_path / "a.html").read_text()
    script = text.partition("<script>")[2].partition("</script>")[0]
    done = subprocess.run(
        ["node", "-"], input=BROWSER + script + ASKED, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    tracks = tracks_of(found.detail, found.roles)
    spans = sum(len(track.start) for track in (path_track(found.path, found.roles), *tracks))
    assert answer["all"] == spans
    assert answer["first"].startswith("warp 0: ")
    assert 0 < answer["to"] - answer["from"] < found.cycles / 2
    assert answer["second"].startswith("warp 0: ")


def test_a_picture(found: KernelProfile, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png = write_timeline(found, tmp_path / "a.png", window=(0, 500), title="a test")
    assert png.read_bytes().startswith(b"\x89PNG")
    svg = write_timeline(found, tmp_path / "a.svg").read_text()
    assert "<svg" in svg
    with pytest.raises(ValueError, match=r"a.txt has none of the suffixes .json, .html, .png"):
        write_timeline(found, tmp_path / "a.txt")


def test_the_chip_is_named(found: KernelProfile, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):  # text stays text
        svg = write_timeline(found, tmp_path / "a.svg").read_text()
        titled = write_timeline(found, tmp_path / "b.svg", title="a test").read_text()
    axis = "predicted cycles of an SM, H100 (sm100sim.timing; nothing was measured on this chip)"
    assert f"{found.kernel} on h100: {found.cycles:,.0f} cycles" in svg
    assert axis in svg
    assert axis in titled
    assert axis in write_timeline(found, tmp_path / "a.html").read_text()


def lab(colour: str) -> np.ndarray:
    """A colour of sRGB in CIELAB, where distances are as large as they look."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    weights = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    x, y, z = np.cbrt(np.array(weights) @ linear / [0.9505, 1, 1.0888])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_units_and_the_path_have_colours_of_their_own() -> None:
    """A difference of 2.3 is just seen; waits for barriers are greys, near to one another."""
    for k, colour in enumerate(PALETTE):
        others = (*COLOURS.values(), *PALETTE[:k])
        near = min(others, key=lambda other: np.linalg.norm(lab(other) - lab(colour)))
        assert np.linalg.norm(lab(near) - lab(colour)) > 25, (colour, near)


def test_bars_show_what_most_cycles_went_to(found: KernelProfile) -> None:
    """At two cycles a piece the bars are nearly the spans."""
    (track,) = [t for t in tracks_of(found.detail, found.roles) if t.name == "warp 1"]
    bars = bars_of(track, 0, 2 * COLUMNS)
    for kind in ("runs", "mbarrier"):
        assert track.end[-1] <= 2 * COLUMNS
        assert sum(width for _, width in bars[kind]) == pytest.approx(track.cycles(kind), abs=12)
