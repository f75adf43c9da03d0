"""`sm100sim profile`: where the time of a program's kernels goes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from subprocess import run

import pytest

from sm100sim.command.main import main
from tests.sim.calls.test_launch import HEAD
from tests.sim.command.test_main import RACE

PTX = HEAD + RACE.replace("BARRIER", "bar.sync 0;")
WORDS = ["profile", "a.ptx", "--arg", "u32[64]=0", "--draws", "2"]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Other tests of the process have imported CuTe DSL; none of these programs uses it.
    monkeypatch.setattr("sm100sim.command.target.activate", lambda: None)
    monkeypatch.chdir(tmp_path)
    Path("a.ptx").write_text(PTX)
    return tmp_path


def test_text_and_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "reverse on b200, ptxas " in shown
    assert "bar.sync" in shown
    assert main([*WORDS, "--output", "out.json", "--role", "all=0-1", "--chip", "gb200"]) == 0
    document = json.loads(Path("out.json").read_text())
    (kernel,) = document["kernels"]
    assert "nothing was measured" in document["cycles"]
    assert [role["name"] for role in kernel["roles"]] == ["all"]
    assert (kernel["chip"], len(kernel["draws"])) == ("gb200", 2)
    assert "the L2 has what it reads" in shown
    assert main([*WORDS, "--l2", "cold"]) == 0
    assert "nothing is in the L2 before it" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--format", "sarif"], ["--output", "out.sarif"]])
@pytest.mark.parametrize("command", ["profile", "mutate"])
def test_a_format_that_it_does_not_write_is_refused_before_the_program_runs(
    program: Path, capsys: pytest.CaptureFixture[str], command: str, words: list[str]
) -> None:
    Path("script.py").write_text("print('it ran')")
    assert main([command, *words, "script.py"]) == 64
    printed = capsys.readouterr()
    assert f"format: {command} writes text or json, not sarif" in printed.err
    assert "it ran" not in printed.out


def test_clusters_that_a_launch_does_not_have_are_named(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--grid", "4", "--clusters", "0,4,9"]) == 0
    assert "--clusters 4,9: reverse has 0 to 3" in capsys.readouterr().err
    assert main([*WORDS, "--clusters", "0"]) == 0
    assert "--clusters" not in capsys.readouterr().err


def test_what_stopped_has_no_profile(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "missing.ptx"]) == 64
    Path("a.ptx").write_text(PTX.replace("bar.sync 0;", "trap;"))
    assert main(WORDS) == 2
    assert "reverse on" not in capsys.readouterr().out


def test_a_refusal_names_the_kernel(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--role", "x=7"]) == 3
    assert "no profile of reverse: roles: x has warp 7; the CTA has 0-1" in capsys.readouterr().err


def test_a_program_without_a_kernel_is_told_so(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source lines are asked for while it runs, and no longer."""
    monkeypatch.delenv("CUTE_DSL_LINEINFO", raising=False)
    Path("idle.py").write_text("import os\nprint('lines', os.environ['CUTE_DSL_LINEINFO'])\n")
    assert main(["profile", "idle.py"]) == 3
    assert "CUTE_DSL_LINEINFO" not in os.environ
    printed = capsys.readouterr()
    assert "lines 1" in printed.out
    said = printed.err
    assert "nothing to profile in idle.py; kernels that it launched: none" in said
    assert main([*WORDS, "--kernel-name", "other*"]) == 3
    assert "kernels that it launched: reverse" in capsys.readouterr().err
    Path("failing.py").write_text("raise SystemExit(7)\n")
    assert main(["profile", "failing.py"]) == 3
    assert "in failing.py, which ended with exit code 7; kernels" in capsys.readouterr().err


def test_a_profile_of_a_program_that_fails_says_so(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fails.py").write_text(
        "import numpy as np\nfrom testing.harness import run_ptx\n"
        "run_ptx('mov.u32 %r1, 1;', np.zeros(4))\nraise SystemExit(7)\n"
    )
    assert main(["profile", "--draws", "1", "fails.py"]) == 7
    printed = capsys.readouterr()
    assert (
        "fails.py ended with exit code 7; what follows is of its launch before that" in printed.err
    )
    assert "a cluster takes" in printed.out


def test_what_cannot_be_written_is_said(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The profile is shown all the same."""
    assert main([*WORDS, "--timeline", "a.ptx/x.html"]) == 64
    printed = capsys.readouterr()
    assert "reverse on b200" in printed.out
    assert "sm100sim: --timeline a.ptx/x.html: " in printed.err
    assert main([*WORDS, "--output", "a.ptx/x.json"]) == 64
    assert "a.ptx/x.json" in capsys.readouterr().err


def test_warps_of_a_role_ascend(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="64"):
        main([*WORDS, "--role", "x=0,5-3"])
    assert "5-3 of 'x=0,5-3' has no warps; 3-5?" in capsys.readouterr().err


def test_options_behind_a_program_are_its_own(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("idle.py").write_text("import sys\nprint(sys.argv[1:])\n")
    assert main(["profile", "idle.py", "--timeline", "a.html", "--fast"]) == 3
    printed = capsys.readouterr()
    assert "['--timeline', 'a.html', '--fast']" in printed.out
    assert "--timeline behind idle.py goes to it as its argument; options of" in printed.err
    assert main(["profile", "idle.py", "--fast"]) == 3
    assert "behind" not in capsys.readouterr().err


@pytest.mark.slow
def test_timelines(program: Path) -> None:
    files = ["a.html", "a.json"]
    assert main([*WORDS, *(word for name in files for word in ("--timeline", name))]) == 0
    assert "traceEvents" in json.loads(Path("a.json").read_text())
    assert "<canvas" in Path("a.html").read_text()
    with pytest.raises(SystemExit, match="64"):
        main([*WORDS, "--timeline", "a.txt"])


@pytest.mark.slow
def test_two_programs_are_compared(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first does the same twice."""
    slow = PTX.replace("bar.sync 0;", "bar.sync 0;\n" * 12)
    Path("b.ptx").write_text(slow)
    assert main([*WORDS, "--compare", "b.ptx", "--output", "out.json"]) == 0
    document = json.loads(Path("out.json").read_text())
    assert len(document["kernels"]) == 2
    found = document["comparison"]
    assert found["ratio"]["low"] > 1
    assert found["path"][0]["what"] == "named barrier"
    assert main([*WORDS, "--compare", "b.ptx"]) == 0
    assert "draw by draw" in capsys.readouterr().out
    assert main([*WORDS, "--compare", "other*"]) == 3
    said = capsys.readouterr().err
    assert "--compare other*: no kernel to compare; it is no file, and as a pattern of" in said
    assert "like '*part*'" in said
    assert "kernels with a profile are: reverse" in said


@pytest.mark.parametrize("command", ["profile", "run"])
def test_json_is_alone_on_standard_output(
    program: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """What the arrays of a PTX file hold is beside it."""
    words = [command, *WORDS[1:4], "--format", "json"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)
    assert "arg 0: uint32[64]" in printed.err
    assert main([*words, "--output", "out.json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("arg 0: uint32[64]")
    assert "arg 0" not in printed.err


def test_repetitions_print_no_arrays(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *WORDS[1:4], "--schedules", "3", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)
    assert printed.err.count("arg 0:") <= 1


@pytest.mark.slow
def test_kernels_of_one_program_are_compared(program: Path) -> None:
    script = (
        "import numpy as np, sm100sim\n"
        "from pathlib import Path\ntext = Path('a.ptx').read_text()\n"
        "more = text.replace('reverse', 'slower').replace('bar.sync 0;', 'bar.sync 0;' * 12)\n"
        "for ptx in (text, more):\n"
        "    sm100sim.launch(ptx, grid=1, block=64, args=[np.zeros(64, np.uint32)])\n"
    )
    Path("both.py").write_text(script)
    words = ["profile", "--compare", "slow*", "--draws", "1", "--output", "out.json", "both.py"]
    # A process of its own: here the DSL may have been imported before the command could take it.
    command = [sys.executable, "-m", "sm100sim", *words]
    done = run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(Path("out.json").read_text())["comparison"]
    assert (found["first"], found["second"]) == ("slower", "reverse")
    assert found["ratio"]["median"] > 1


def test_arrays_lie_where_lines_begin(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So whichever run it is touches as many of them, and compared with itself takes as long."""
    address = (
        "ld.param.u64 %a, [a]; cvt.u32.u64 %x, %a; and.b32 %x, %x, 255; st.global.u32 [%a], %x;"
    )
    Path("where.ptx").write_text(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 a) {"
        f" .reg .b64 %a; .reg .b32 %x; {address} ret; }}"
    )
    for count in (1, 3, 77):
        assert main(["run", "--block", "1", "--arg", f"u32[{count}]=5", "where.ptx"]) == 0
        assert f"uint32[{count}] changed, sum {5 * (count - 1)}," in capsys.readouterr().out
