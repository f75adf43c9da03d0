"""Findings, faults and hot spots name the line of the program that the PTX was compiled from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report, SimulationFault
from testing.harness import SMEM, run_ptx
from tests.sim.formats.launches import RACE

PROGRAM = "def reverse(s, a, o, t):\n    s[t] = a[t]\n    o[t] = s[63 - t]\n    while True: pass\n"
WARPS = "mov.u32 %r2, %tid.x; setp.lt.u32 %q1, %r2, 32;"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text(PROGRAM)
    return path


def run(body: str, program: Path, **options: Any) -> Report:
    shared = f'{SMEM}\n.file 1 "{program}"'
    return run_ptx(body, np.zeros(64, np.uint32), shared=shared, smem=256, block=64, **options)


def test_both_places_of_a_race(program: Path) -> None:
    report = run(RACE, program, checks=Check.RACES)
    found = report.findings[1]
    assert found.place is not None
    assert found.place2 is not None
    assert {found.place.text, found.place2.text} == {"s[t] = a[t]", "o[t] = s[63 - t]"}
    shown = str(found)
    assert f"    {program}:3: o[t] = s[63 - t]\n        PTX line {found.line}: ld.shared" in shown
    assert f"    and {program}:2: s[t] = a[t]\n        PTX line {found.line2}: st.shared" in shown
    assert f"{program}:2: s[t] = a[t]" in report._repr_html_()


def test_faults_deadlocks_and_livelocks(program: Path) -> None:
    cases = {
        "global-address": "mov.b64 %rd1, 0;\n.loc 1 2\nst.global.b32 [%rd1], %r1;",
        "deadlock": f"{WARPS}\n.loc 1 3\n@%q1 bar.sync 1, 64; @!%q1 bar.sync 2, 64;",
        "livelock": ".loc 1 4\nL: bra L;",
    }
    for code, body in cases.items():
        line = body.split(".loc 1 ")[1][0]
        with pytest.raises(SimulationFault, match=rf"{code}: .*\n +{program}:{line}: \S") as caught:
            run(body, program, max_idle_instructions=20_000)
        assert all(f.line and f.place for f in caught.value.report.findings)


def test_messages_that_name_a_ptx_line_name_the_source_line(program: Path) -> None:
    body = (
        "mov.u32 %r2, dyn;\n.loc 1 2\n@%q0 bra E;\nmbarrier.init.shared.b64 [%r2], 1;\nE:\n"
        "mbarrier.try_wait.parity.shared.b64 %q1, [%r2], 0;\n"
    )
    body = f"mov.u32 %r1, %tid.x; setp.ne.u32 %q0, %r1, 0;\n{body}@!%q1 bra E;"
    with pytest.raises(SimulationFault, match=rf"initialised at PTX line \d+ \({program}:2: s"):
        run(body.replace("E:", "bar.warp.sync -1;\nE:"), program)


def test_hot_spots_count_source_lines(program: Path) -> None:
    report = run(RACE + ".loc 1 2\nmul.lo.u32 %r1, %r1, 3;\n.loc 1 3\n", program)
    spots = report.hot_spots(50)
    places = {(s.place.file, s.place.line): s for s in spots if s.place}
    assert list(places) == [(str(program), 3), (str(program), 2)]
    assert len(places[str(program), 2].lines) == 2
    assert places[str(program), 3].instructions == 2 * 4
    assert sum(s.instructions for s in spots) == report.instructions
    assert str(spots[0]).startswith(f"{spots[0].instructions:,} ")
    assert len(report.hot_spots(1)) == 1


def test_line_information_changes_no_value_and_no_count(program: Path) -> None:
    plain = "\n".join(line for line in RACE.split("\n") if not line.startswith(".loc"))
    one, other = (run(body, program, checks=Check.ALL) for body in (RACE, plain))
    assert one.opcode_counts == other.opcode_counts
    assert one.instructions == other.instructions
    assert [f.message for f in one.findings] == [f.message for f in other.findings]
    assert other.findings[0].place is None


DSL = """
import json, sm100sim
sm100sim.activate()
import torch
from cutlass import Float32
from cutlass.cute.runtime import from_dlpack
from tests.sim.host import programs
x = torch.zeros(64)
programs.add(from_dlpack(x), Float32(2.0))
spots = [s.place for s in sm100sim.last_report().hot_spots(50) if s.place]
print(json.dumps([x.sum().item(), [[p.file, p.text] for p in spots]]))
"""


@pytest.mark.slow
def test_cute_dsl_with_line_information() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DSL], cwd=root, env={**os.environ, "CUTE_DSL_LINEINFO": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    total, spots = json.loads(done.stdout)
    assert total == 128.0
    file, line = root / "tests/sim/host/programs.py", "values[index] = values[index] + amount"
    assert [str(file), line] in spots
