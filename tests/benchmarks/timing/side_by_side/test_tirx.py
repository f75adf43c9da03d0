"""TIRx's attention: what it is asked for, how its program is made, and its register levels."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.timing.side_by_side import problems, spread, tirx
from benchmarks.timing.side_by_side.callers import TIRX, Declined, records
from benchmarks.timing.side_by_side.grid.tiles import Layout

CAUSAL = problems.Family((128, 128), True).problem(2048, 4)
FULL = replace(CAUSAL, causal=False)


def test_sequences_are_further_heads_and_ctas_are_those_of_its_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built, launched = list[Any](), list[Any]()

    def build(*given: Any) -> Path:
        built.append(given)
        return Path("program")

    monkeypatch.setattr(tirx, "built", build)
    monkeypatch.setattr(tirx, "launched", lambda words, hear: launched.append(words))
    tirx.attention(CAUSAL, print, 148)
    tirx.attention(FULL, print, 148, level="5")
    tirx.attention(replace(FULL, batch=1, heads=2, heads_kv=2), print, 148)
    assert built == [(2048, 64, True, ""), (2048, 64, False, "5"), (2048, 2, False, "")]
    assert launched == [["program", "2048", "64", "512"], ["program", "2048", "64", "148"],
                        ["program", "2048", "2", "16"]]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [{"head_dim": 64, "head_dim_v": 64}, {"dtype": "fp8"}, {"heads_kv": 4}, {"seqlen_q": 1024}],
)
def test_it_declines_what_it_is_not_asked_for_here(other: dict[str, Any]) -> None:
    with pytest.raises(Declined, match="d128, as many queries as keys"):
        records(TIRX, replace(CAUSAL, **other), lambda _: None)


def test_its_program_needs_a_python_and_is_made_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(tirx.PYTHON, raising=False)
    with pytest.raises(FileNotFoundError, match=r"SM100SIM_TIRX names no Python.*0\.1\.2"):
        tirx.built(1024, 2, causal=False)
    monkeypatch.setenv(tirx.PYTHON, "python-of-tirx")
    monkeypatch.setattr(tirx, "FOLDER", tmp_path)
    asked, made = list[Any](), list[Any]()
    monkeypatch.setattr(subprocess, "run", lambda words, check: asked.append(words))

    def compile_program(program: Path, source: Path, *options: str) -> None:
        made.append((source, options))
        program.write_text("")

    monkeypatch.setattr(tirx, "compile_program", compile_program)
    program = tirx.built(1024, 2, causal=True)
    assert tirx.built(1024, 2, causal=True) == program
    assert tirx.built(1024, 2, causal=True, level="5") != program
    source = str(program.with_suffix(".cu"))
    python, _, writer, *words = asked[0]
    assert (python, words) == ("python-of-tirx", ["1024", "2", "1", source, ""])
    assert '("0.27.0", "0.1.2")' in writer
    compile(writer, "writer", "exec")
    assert made[0] == (tirx.MAIN, ("-w", "--use_fast_math", f'-DSOURCE="{source}"'))
    assert len(asked) == len(made) == 2
    assert asked[1][-1] == "5"


def test_a_level_travels_with_the_ptx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The script passes the level and all else on; a PTX without a level keeps its assembler."""
    monkeypatch.setattr(tirx, "FOLDER", tmp_path)
    assert tirx.at_level("echo", ".visible .entry kernel()") == "echo"
    script = tirx.at_level("echo", ".visible .global .align 4 .u32 register_usage_level_10;")
    found = subprocess.run([script, "a.ptx", "-o", "b"], capture_output=True, check=True)
    assert found.stdout == b"--register-usage-level=10 a.ptx -o b\n"
    assert tirx.at_level("echo", "register_usage_level_2") != script


def test_its_longest_tiles_come_first_over_the_heads_that_fit_the_l2() -> None:
    extent = spread.extent_of(CAUSAL, "TIRx")
    assert extent.section == 32  # a head's keys and values: 1 MiB
    layout = Layout(256, 1, persistent=False, order="sections", runner="TIRx")
    assert extent.tiles(layout)[:33] == [2048] * 32 + [1792]
    assert not spread.in_a_row(TIRX)
