"""The program without a GPU, and the recorded launches on the simulator in a GPU's place."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.hopper import attention_times
from benchmarks.hopper.times.clocks import ClockLog, Nvml
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.runners import Call, NotOffered, Tensors, triton_tutorial
from benchmarks.hopper.times.tensors import error, make
from benchmarks.hopper.times.timing import Times
from tests.benchmarks.hopper.test_clocks import library

ROOT = Path(__file__).resolve().parents[3]
SMALL = Problem("full", 1, 40, 40, 2, 2, 32, 32)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip


@pytest.mark.slow
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
    monkeypatch.setattr(attention_times, "make", lambda problem, _device: make(problem, "cpu"))
    offered = {"right": right, "wrong": wrong, "absent": absent}
    calls, errors, refused = attention_times.prepared(SMALL, offered)
    assert list(calls) == ["right"]
    assert errors["right"] < 1e-2
    assert refused["absent"] == "NotOffered: nothing here"
    assert refused["wrong"].startswith("wrong: relative error")


def test_triton_s_tutorial_gets_its_own_layout(tmp_path: Path) -> None:
    file = tmp_path / "tutorial.py"
    file.write_text(
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def attention(q, k, v, causal, scale):\n"
        "    assert q.shape == (1, 4, 1024, 64) and q.is_contiguous()\n"
        "    return sdpa(q, k, v, is_causal=causal, scale=scale)\n"
    )
    runner = triton_tutorial(file)
    problem = Problem("full", 2, 1024, 1024, 2, 2, 64, 64, causal=True)
    tensors = make(problem, "cpu")
    runner(problem, tensors)()
    assert error(problem, tensors) < 1e-2
    with pytest.raises(NotOffered):
        runner(SMALL, tensors)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hopper GPU on which every run takes two milliseconds."""

    def timed(calls: Mapping[str, Call], rounds: int, _flush: object) -> tuple[Any, Any]:
        return {name: Times((2.0,) * rounds) for name in calls}, {}

    def zeros(problem: Problem, tensors: Tensors) -> Call:
        tensors["out"].zero_()
        return lambda: None

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    small = {"make": lambda _problem, _device: make(SMALL, "cpu"), "error": lambda *_: 1e-3}
    stands = {
        **small, "measured": timed, "host_cost": lambda _call: 9.0, "copy_rate": lambda *_: 4000.0,
        "Flush": lambda cold: None, "ClockLog": lambda: ClockLog(Nvml(0, library())),
        "runners": lambda *_files: {"fa4_cute": zeros, "FA4": zeros}, "card": dict,
    }  # fmt: skip
    for name, stand in stands.items():
        monkeypatch.setattr(attention_times, name, stand)


@pytest.mark.usefixtures("pretended")
def test_the_program_writes_what_it_measured(tmp_path: Path) -> None:
    out = tmp_path / "new" / "times"
    asked = ["--out", str(out), "--only", "full-d64-k(1024|16384)-.*causal", "--rounds", "4"]
    assert attention_times.main(asked) == 0
    found = json.loads(out.with_suffix(".json").read_text())
    assert [row["problem"]["seqlen_k"] for row in found["rows"]] == [1024, 16384]
    first, last = (row["results"] for row in found["rows"])
    assert (first["fa4_cute"]["ms"], len(first["fa4_cute"]["runs"])) == (2.0, 4)
    assert (first["fa4_cute"]["host_us"], first["FA4"]["host_us"]) == (9.0, None)
    assert last["fa4_cute"]["host_us"] is None
    assert "| 64 | causal | 16,384 | 1 |" in out.with_suffix(".md").read_text()


@pytest.mark.usefixtures("pretended")
def test_the_program_stops_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attention_times.main(["--out", str(tmp_path / "times"), "--seconds", "0"]) == 0
    assert "out of time before full-d64-k512" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("pretended")
def test_a_wrong_result_fails_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_times, "error", lambda *_: 0.5)
    assert attention_times.main(["--out", str(tmp_path / "t"), "--only", "full-d64-k512-"]) == 1


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
