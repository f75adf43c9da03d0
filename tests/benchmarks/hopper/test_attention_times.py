"""The program without a GPU, and the recorded launches on the simulator in a GPU's place."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.hopper import attention_times
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.runners import Call, NotOffered, Tensors

ROOT = Path(__file__).resolve().parents[3]
SMALL = Problem("full", 1, 40, 40, 2, 2, 32, 32)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


def test_it_needs_neither_the_dsl_nor_the_simulator() -> None:
    program = (
        "import sys, benchmarks.hopper.attention_times;"
        "print(sorted({'cutlass', 'sm100sim', 'flash_attn'} & set(sys.modules)))"
    )
    done = run(["-c", program])
    assert done.stdout.strip() == "[]", done.stderr


def test_without_a_hopper_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert attention_times.main([]) == 2
    assert "compute capability 9.0" in capsys.readouterr().out


def test_only_right_results_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def right(problem: Problem, tensors: Tensors) -> Call:
        q, k, v = (tensors[name].transpose(1, 2) for name in ("q", "k", "v"))
        attention = torch.nn.functional.scaled_dot_product_attention
        return lambda: tensors["out"].copy_(attention(q, k, v).transpose(1, 2))

    def wrong(problem: Problem, tensors: Tensors) -> Call:
        return lambda: tensors["out"].fill_(1.0)

    def absent(problem: Problem, tensors: Tensors) -> Call:
        raise NotOffered("nothing here")

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    make = attention_times.make
    monkeypatch.setattr(attention_times, "make", lambda problem, _device: make(problem, "cpu"))
    offered = {"right": right, "wrong": wrong, "absent": absent}
    calls, errors, refused = attention_times.prepared(SMALL, offered)
    assert list(calls) == ["right"]
    assert errors["right"] < 1e-2
    assert refused["absent"] == "NotOffered: nothing here"
    assert refused["wrong"].startswith("wrong: relative error")


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("flash_attn") is None or importlib.util.find_spec("quack") is None,
    reason="no flash-attn-4",
)
def test_recorded_launches_of_flash_attention_4_run_elsewhere() -> None:
    script = str(Path(__file__).with_name("fa4_replay.py"))
    done = run([script], CUTE_DSL_ARCH="sm_90a")
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    assert set(errors) == {"full", "packed", "paged"}
    assert max(errors.values()) < 5e-3
