"""The demo runs, says what it should, and draws a timeline that shows all roles at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fa4_cute
from examples.attention_timeline import draw_attention, label_of, rows_of
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from sm100sim.report import EventKind
from sm100sim.timeline import spans_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_timeline_names_every_role_and_accumulator(tmp_path: Path) -> None:
    q = torch.randn(1, 200, 1, 64).bfloat16()
    choice = choose(Problem.from_tensors(q, q, q))
    assert isinstance(choice, Choice)
    with fa4_cute.simulator_options(trace_cluster=0):
        fa4_cute.flash_attn(q, q, q)
    report = fa4_cute.last_report()
    assert report is not None
    label = label_of(choice.spec)
    seen = {label(event) for event in report.events if event.kind is EventKind.MMA}
    # A small problem takes one Q tile per CTA, for both chains.
    assert seen == {"S0 = Q0 K'", "S1 = Q0 K'", "O0 += P0 V", "O1 += P1 V"}
    rows = rows_of(choice.spec)
    assert [row.name.split(" ")[0] for row in rows] == [
        "softmax0", "softmax1", "correction", "mma", "load", "tensor", "TMA",
    ]  # fmt: skip
    for row in rows:
        assert spans_of(report, row, label), row.name
    picture = draw_attention(report, choice.spec, tmp_path / "timeline.png", "a test")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in (
        "q (1, 1024, 1, 128)",
        "kernel SM100MHA2Q",
        "warp instructions in",
        "plain PyTorch",
        "causal=True",
    ):
        assert words in done.stdout
    assert done.stderr == "", "silent in a pipe"
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
