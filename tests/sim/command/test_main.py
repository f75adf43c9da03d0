"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sm100sim.command.main import main
from tests.sim.calls.test_launch import HEAD, SUM

ROOT = Path(__file__).parents[3]
RACE = """
.shared .align 4 .b8 s[256];
.visible .entry reverse(.param .u64 out) .reqntid 64 {
.reg .b32 %r<6>; .reg .b64 %rd<3>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
BARRIER
xor.b32 %r1, %r1, 63; mad.lo.u32 %r3, %r1, 4, %r2; ld.shared.u32 %r4, [%r3];
mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r4; ret; }
"""
SCRIPT = """
import sys
from pathlib import Path
import numpy as np, sm100sim
assert sys.argv[1:] == ["--json", "mine", "--m=256"], sys.argv
out = np.zeros(64, np.uint32)
for barrier in ("", "bar.sync 0;"):
    sm100sim.launch(Path("race.ptx").read_text().replace("BARRIER", barrier), grid=1, args=[out])
"""
DSL = """
import torch
from cutlass import Float32
from cutlass.cute.runtime import from_dlpack
from tests.sim.host import programs
x = torch.zeros(64)
programs.add(from_dlpack(x), Float32(2.0))
assert (x == 2).all()
sys.exit({})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sum.ptx").write_text(HEAD + SUM)
    (tmp_path / "race.ptx").write_text(HEAD + RACE)
    monkeypatch.chdir(tmp_path)
    # Scripts that run in this process need no DSL, which another test may have imported.
    monkeypatch.setattr("sm100sim.command.target.activate", lambda: None)
    return tmp_path


def check(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sm100sim", *words], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def launched(*words: str) -> int:
    return main(["run", "sum.ptx", "--grid", "4", "--block", "32", *words])


def test_run_prints_checksums_that_the_seed_repeats(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--arg", "f32[100]", "--arg", "f32[100]=1", "--arg", "100"]
    outputs = []
    for seed in ("3", "3", "4"):
        assert launched(*words, "--seed", seed) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    first, second = outputs[0].splitlines()
    assert first.startswith("arg 0: float32[100] unchanged, sum ")
    assert second.startswith("arg 1: float32[100] changed, sum ")


def test_run_says_what_was_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--arg", "f32[100]", "--arg", "f32[100]"]
    assert launched(*words, "--arg", "101") == 2
    assert "global-address" in capsys.readouterr().err
    assert launched(*words, "--arg", "101", "--error-exitcode", "9") == 9
    assert launched(*words) == 64
    assert "args: 2 given, the kernel has 3 parameters" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="64"):
        launched("--arg", "f32[x]")
    assert "neither a number nor an array" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="64"):
        launched("--tool", "leakcheck")
    assert "tools: memcheck, racecheck" in capsys.readouterr().err


def test_findings_hot_spots_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "race.ptx").write_text(HEAD + RACE.replace("BARRIER", ""))
    words = ["check", "race.ptx", "--arg", "u32[64]", "--output", "out.json", "--hot-spots", "2"]
    assert main(words) == 1
    shown = capsys.readouterr().err
    assert "race-shared" in shown
    assert shown.count("  hot: ") == 2
    document = json.loads((folder / "out.json").read_text())
    assert (document["exit_code"], document["program"]) == (1, "race.ptx")
    (launch,) = document["launches"]
    assert {f["code"] for f in launch["findings"]} == {"race-shared", "uninitialised-shared"}
    assert main([*words, "--tool", "racecheck", "--print-limit", "1"]) == 1
    assert len(json.loads((folder / "out.json").read_text())["launches"][0]["findings"]) == 1
    assert main([*words, "--tool", "memcheck,synccheck"]) == 0
    # `run` looks only for what stops a launch; options may stand before the file.
    assert main(["run", "--arg", "u32[64]", "race.ptx"]) == 0
    assert main(["run", "--arg", "u32[64]", "--tool", "racecheck", "race.ptx"]) == 1


def test_formats_and_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "race.ptx").write_text(HEAD + RACE.replace("BARRIER", ""))
    words = ["check", "race.ptx", "--arg", "u32[64]"]
    assert main([*words, "--format", "sarif"]) == 1
    printed = capsys.readouterr().out
    document = json.loads(printed[printed.index("{") :])
    region = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region["startLine"] > 5
    assert document["runs"][0]["invocations"][0]["exitCode"] == 1
    assert main([*words, "--format", "junit", "--output", "out.log"]) == 1
    suites = ElementTree.parse(folder / "out.log").getroot()
    assert (suites.get("failures"), suites[0].get("name")) == ("1", "race.ptx")
    assert main([*words, "--output", "out.txt"]) == 1
    assert "race-shared" in (folder / "out.txt").read_text()
    assert main([*words, "--output", "out.log"]) == 64
    assert "'out.log' names no format" in capsys.readouterr().err
    assert main([*words, "--output", "no/out.json"]) == 64


def test_suppressions_and_those_without_use(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "race.ptx").write_text(HEAD + RACE.replace("BARRIER", ""))
    entry = '[[suppress]]\ncode = "{}"\nreason = "tested"\nptx = "ld.shared"\n'
    codes = ("race-shared", "uninitialised-shared", "race-global")
    (folder / "ok.toml").write_text("".join(entry.format(code) for code in codes))
    words = ["check", "race.ptx", "--arg", "u32[64]", "--suppressions", "ok.toml"]
    assert main(words) == 0
    shown = capsys.readouterr().err
    assert "sm100sim: 1 launches, 1 clean, 0 findings, " in shown
    assert "suppression without use: ok.toml, entry 3: race-global" in shown
    (folder / "ok.toml").write_text("[[suppress]]")
    with pytest.raises(SystemExit, match="64"):
        main(words)
    assert "entry 1: code: is required" in capsys.readouterr().err


@pytest.mark.slow
def test_check_takes_every_launch_of_a_script(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    done = check(folder, "check", "--output", "out.json", "script.py", "--json", "mine", "--m=256")
    assert done.returncode == 1, done.stderr
    assert "race-shared" in done.stderr
    assert "sm100sim: 2 launches, 1 clean, " in done.stderr
    document = json.loads((folder / "out.json").read_text())
    assert [x["verdict"] for x in document["launches"]] == ["findings", "clean"]
    assert document["launches"][0]["options"]["checks"][-1] == "PROTOCOL"


SEVERAL = """
from pathlib import Path
import numpy as np, sm100sim
text = Path("race.ptx").read_text().replace("BARRIER", "")
out = np.zeros(64, np.uint32)
for name in ("one", "two", "one", "two", "one"):
    options = sm100sim.RunOptions(mode="late")
    sm100sim.launch(text.replace("reverse", name), options, grid=1, args=[out])
"""


@pytest.mark.parametrize(
    ("words", "kernels", "code"),
    [
        ([], "one two one two one", 1),
        (["--kernel-name", "o*"], "one one one", 1),
        (["--kernel-name-exclude", "one"], "two two", 1),
        (["--kernel-name", "one", "--launch-skip", "1", "--launch-count", "1"], "one", 1),
        (["--launch-skip", "3"], "two one", 1),
        (["--kernel-name", "three"], "", 3),
    ],
)
def test_launches_are_selected(folder: Path, words: list[str], kernels: str, code: int) -> None:
    (folder / "several.py").write_text(SEVERAL)
    assert main(["check", *words, "--output", "out.json", "several.py"]) == code
    launches = json.loads((folder / "out.json").read_text())["launches"]
    assert " ".join(launch["kernel"] for launch in launches) == kernels
    assert all(launch["findings"] for launch in launches)
    assert {launch["options"]["mode"] for launch in launches} <= {"late"}


def test_launches_of_other_threads_are_heard(folder: Path) -> None:
    threaded = "import threading\nt = threading.Thread(target=work); t.start(); t.join()"
    body = SCRIPT.partition("assert sys.argv")[2].partition("\n")[2]
    body = body.replace('open("race.ptx").read()', 'Path("race.ptx").read_text()')
    work = "".join(f"    {line}\n" for line in body.splitlines())
    head = "from pathlib import Path\nimport numpy as np, sm100sim\ndef work():\n"
    (folder / "threads.py").write_text(f"{head}{work}{threaded}\n")
    assert main(["check", "--output", "out.json", "threads.py"]) == 1
    document = json.loads((folder / "out.json").read_text())
    assert [x["verdict"] for x in document["launches"]] == ["findings", "clean"]


def test_a_loop_that_never_ends_is_stopped(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "L: st.global.u32 [%rd1], %r1; add.u32 %r1, %r1, 1; bra L;"
    (folder / "loop.ptx").write_text(HEAD + RACE.replace("BARRIER", body))
    words = ["run", "loop.ptx", "--arg", "u32[64]", "--max-instructions", "1000"]
    assert main(words) == 2
    assert "too-many-instructions" in capsys.readouterr().err


def test_several_schedules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.argv, sys.path.copy()
    (folder / "script.py").write_text(SCRIPT.replace("assert sys", "print('once')\n#"))
    assert main(["check", "--schedules", "4", "--output", "out.json", "script.py"]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("once") == 1
    assert "repeat the first: run_options(mode='timed'" in shown.err
    document = json.loads((folder / "out.json").read_text())
    assert [s["mode"] for s in document["schedules"]] == ["timed", "fast", "late", "random"]
    assert len(document["launches"]) == 8
    (folder / "none.py").write_text("raise SystemExit(7)")
    assert main(["check", "--schedules", "4", "none.py"]) == 7
    assert main(["check", "--schedules", "4", "nowhere.py"]) == 64
    assert (sys.argv, sys.path) == before


@pytest.mark.slow
def test_check_of_a_cute_dsl_program_and_its_own_exit_code(folder: Path) -> None:
    (folder / "dsl.py").write_text("import sys\n" + DSL.format(7))
    done = check(folder, "check", "--hot-spots", "1", "dsl.py")
    assert done.returncode == 7, done.stderr
    assert "sm100sim: 1 launches, 1 clean, 0 findings" in done.stderr
    assert "tests/sim/host/programs.py:" in done.stderr


def test_check_proves_nothing_without_a_launch(folder: Path) -> None:
    (folder / "none.py").write_text("raise KeyError('gone')\n")
    done = check(folder, "check", "none.py")
    assert done.returncode == 3
    assert "KeyError: 'gone'" in done.stderr
    assert main(["check", "nowhere.py"]) == 64


def test_coverage_names_what_would_stop_a_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coverage", "sum.ptx"]) == 0
    assert capsys.readouterr().out == "sum: 17 of 17 instructions\n"
    (folder / "odd.ptx").write_text(HEAD + SUM.replace("ret;\n}", "nop.x; nop.x; odd;\nret; }"))
    assert main(["coverage", "odd.ptx"]) == 1
    shown = capsys.readouterr().out
    assert "sum: 17 of 20 instructions\n  2 x " in shown
    assert "1 x opcode 'odd' is not in the instruction set here; first at PTX line" in shown
    (folder / "no.ptx").write_text("no PTX")
    assert main(["coverage", "no.ptx"]) == 2
    assert main(["coverage", "missing.ptx"]) == 64
    assert main(["run", "no.ptx"]) == 2


def test_info_names_engine_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    shown = capsys.readouterr().out
    for name in ("sm100sim", "engine", "cache folder", "numpy", "triton"):
        assert f"\n{name} " in f"\n{shown}"


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "sm100sim", "info"]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (3, "")
