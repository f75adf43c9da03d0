"""`sm100sim profile`: instructions, waits and modelled cycles of a program's kernels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import sm100sim
from sm100sim.command.main import main
from sm100sim.formats.profile import profile_text, profiles
from tests.sim.calls.test_launch import HEAD
from tests.sim.command.test_main import RACE

PTX = HEAD + RACE.replace("BARRIER", "bar.sync 0;")


def launched(**options: object) -> sm100sim.Report:
    used = sm100sim.RunOptions(trace_cluster=0, **options)
    return sm100sim.launch(PTX, used, grid=1, args=[np.zeros(64, np.uint32)])


def test_a_kernel_s_launches_are_one_profile() -> None:
    reports = [launched(), launched()]
    (found,) = profiles(reports)
    assert (found.kernel, found.launches) == ("reverse", 2)
    assert found.instructions == sum(found.operations.values()) == 2 * reports[0].instructions
    assert found.cycles == reports[0].cycles
    (wait,) = found.waits
    assert "bar.sync 0" in wait.source
    assert wait.times == 2
    assert [(w.rank, w.warp, w.line) for w in found.warps] == [(0, 0, wait.line), (0, 1, wait.line)]
    assert sum(w.waiting for w in found.warps) == wait.cycles > 0
    assert max(w.busy + w.waiting for w in found.warps) == found.cycles


def test_the_text_says_what_its_cycles_are() -> None:
    shown = profile_text(profiles([launched()])[0], most=2)
    assert "modelled cycles (published throughputs and latencies; not measured on a chip)" in shown
    assert "CTA rank 0, warp 1: busy " in shown
    mix = shown.partition("operations by executed warp instructions:\n")[2].partition("  waits")[0]
    assert [line.split()[:2] for line in mix.splitlines()] == [["4", "(15%)"]] * 2


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.ptx").write_text(PTX)
    words = ["profile", "a.ptx", "--arg", "u32[64]=0"]
    assert main([*words, "--top", "1"]) == 0
    shown = capsys.readouterr().out
    assert "reverse: 1 launches, 26 warp instructions" in shown
    assert main([*words, "--output", "out.json"]) == 0
    document = json.loads(Path("out.json").read_text())
    assert document["kernels"][0]["waits"][0]["source"].strip() == "bar.sync 0;"
    assert "not measured" in document["cycles"]
    assert main([*words, "--format", "sarif"]) == 64
    assert "format: profile writes text or json, not sarif" in capsys.readouterr().err
    assert main(["profile", "missing.ptx"]) == 64
    Path("a.ptx").write_text(PTX.replace("bar.sync 0;", "trap;"))
    assert main(words) == 2
