"""Programs that write a file named on their command line: a word that is no file writes nothing."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import pytest

from testing.site.target import target

PROGRAMS = (
    "benchmarks.tune.page",
    "benchmarks.tune.masked",
    "benchmarks.timing.blackwell",
    "benchmarks.timing.profiles",
    "benchmarks.timing.replayed",
    "benchmarks.timing.judges.page",
    "benchmarks.timing.judges.warm_page",
    "benchmarks.timing.sharing",
    "benchmarks.timing.sharing.paces",
    "benchmarks.timing.sharing.together",
    "benchmarks.timing.sharing.together_kernels",
    "testing.why_ptx",
    "testing.site.findings",
)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("word", ["--help", "--nothing"])
def test_options_are_no_files(
    program: str, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [program, word])
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore", RuntimeWarning)  # some are imported already
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(program, run_name="__main__")
    assert ended.value.code == (0 if word == "--help" else 2)
    assert not [*tmp_path.iterdir()]


def test_the_only_argument_is_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert target("Says so.", ["a/b"]) == Path("a/b")
    with pytest.raises(SystemExit):
        target("Says so.", ["--help"])
    assert "Says so." in capsys.readouterr().out
    for wrong in ([], ["a", "b"]):
        with pytest.raises(SystemExit) as ended:
            target("", wrong)
        assert ended.value.code == 2
