"""`sm100sim mutate`: faults that checks notice, that the program notices, and that nobody does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sm100sim.command.main import main
from tests.sim.calls.test_launch import HEAD
from tests.sim.command.test_main import RACE

PTX = HEAD + RACE.replace("BARRIER", "bar.sync 0;")
PROGRAM = """
from pathlib import Path
import numpy as np, sm100sim
out = np.zeros(64, np.uint32)
with sm100sim.run_options(mode="late"):
    sm100sim.launch(Path("a.ptx").read_text(), grid=1, args=[out])
print("launched")
"""
CAREFUL = "assert (out == np.arange(64)).all()\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Programs that run in this process need no DSL, which another test may have imported.
    monkeypatch.setattr("sm100sim.command.target.activate", lambda: None)
    Path("a.ptx").write_text(PTX)
    Path("careless.py").write_text(PROGRAM)
    Path("careful.py").write_text(PROGRAM + CAREFUL)


def faults(*words: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and kind and observer of each fault."""
    Path("out.json").unlink(missing_ok=True)
    code = main(["mutate", "--output", "out.json", *words])
    document = json.loads(Path("out.json").read_text())
    assert document["exit_code"] == code
    return code, [(fault["kind"], fault["noticed"]) for fault in document["faults"]]


def test_a_check_notices(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults("careless.py") == (0, [("drop-bar-sync", "check")])
    shown = capsys.readouterr()
    assert shown.out == "launched\n"
    assert "check (race-shared, uninitialised-shared): drop-bar-sync: PTX line " in shown.err
    assert "bar.sync 0 -> nothing" in shown.err
    assert main(["mutate", "--output", "out.txt", "careless.py"]) == 0
    assert Path("out.txt").read_text() == "sm100sim: 1 planted faults: 1 check\n"
    assert main(["mutate", "--format", "junit", "careless.py"]) == 64
    assert "format: mutate writes text or json, not junit" in capsys.readouterr().err


def test_the_program_notices_or_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    # Warp 1 passes the missing barrier while warp 0 is still counting.
    swapped = PTX.replace("st.shared.u32 [%r3], %r1;", "ROUND st.shared.u32 [%r3], %r1;")
    waiting = "setp.lt.u32 %p1, %r1, 32; mov.u32 %r5, 0;\nL: @%p1 add.u32 %r5, %r5, 1;\n"
    waiting += "setp.lt.and.u32 %p2, %r5, 900, %p1; @%p2 bra L;\n"
    body = swapped.replace("ROUND", waiting).replace(".reg .b32", ".reg .pred %p<3>; .reg .b32")
    Path("a.ptx").write_text(body)
    assert faults("--tool", "memcheck", "careful.py") == (0, [("drop-bar-sync", "program")])
    assert faults("--tool", "memcheck", "careless.py") == (1, [("drop-bar-sync", "missed")])
    assert main(["mutate", "--tool", "memcheck", "careless.py"]) == 1
    assert "  reverse: missed: drop-bar-sync: PTX line " in capsys.readouterr().out

    Path("b.ptx").write_text(body)
    words = ("b.ptx", "--arg", "u32[64]=0")
    assert faults("--tool", "memcheck", *words) == (0, [("drop-bar-sync", "result")])
    assert faults(*words) == (0, [("drop-bar-sync", "check")])


def test_kinds_and_kernels_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults("--kind", "drop-init", "careless.py") == (3, [])
    assert faults("--kernel-name", "other", "careless.py") == (3, [])
    assert faults("--kind", "drop-*", "--limit", "0", "careless.py")[0] == 0


def test_there_must_be_something_to_plant_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutate", "missing.py"]) == 64
    Path("none.py").write_text("")
    assert main(["mutate", "none.py"]) == 3
    assert "no launch was seen" in capsys.readouterr().err
    Path("fails.py").write_text(PROGRAM + "raise SystemExit(5)")
    assert main(["mutate", "fails.py"]) == 3
    assert "without any, exit code 5" in capsys.readouterr().err
    Path("a.ptx").write_text(PTX.replace("bar.sync 0;", "bar.sync 0; trap;"))
    assert main(["mutate", "a.ptx", "--arg", "u32[64]"]) == 3
    assert "without any, reverse stopped" in capsys.readouterr().err
