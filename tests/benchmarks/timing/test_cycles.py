"""What a GPU is asked in cycles: the kernel that reads clocks, and recorded GEMMs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.timing import cycles
from benchmarks.timing.gemms import LADDER, Gemm
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run
from sm100sim.timing.sass.tools import tool
from testing.harness import aligned


def test_names_of_gemms_are_unique() -> None:
    assert len({gemm.name for gemm in LADDER}) == len(LADDER)
    assert LADDER[2].name == "gemm-4096x4096x4096-tile128x128-cluster1x1-pingpong"


def test_the_kernel_that_reads_clocks_writes_those_of_its_sm() -> None:
    flat = aligned(2 * cycles.PLACES, np.uint64)
    flat[:] = 0
    request = LaunchRequest(
        ptx=cycles.STAMP.replace("8.0", "8.7").replace("sm_90", "sm_100a"), kernel="stamp",
        grid=(4, 1, 1), block=(1, 1, 1), params=(int(flat.ctypes.data).to_bytes(8, "little"),),
    )  # fmt: skip
    run(request, RunOptions(), buffers=[flat])
    places = flat.reshape(cycles.PLACES, 2)
    used = places.any(axis=1)
    assert used.any()
    assert (places[used, 1] > 0).all()


def test_the_kernel_that_reads_clocks_assembles_for_hopper(tmp_path: Path) -> None:
    file = tmp_path / "stamp.ptx"
    file.write_text(cycles.STAMP)
    command = [tool("ptxas"), "-arch=sm_90", str(file), "-o", str(tmp_path / "stamp.cubin")]
    subprocess.run(command, check=True)


def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cycles.main([str(tmp_path / "out.json")]) == 2
    assert "compute capability 9.0" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("quack") is None, reason="no quack-kernels")
def test_a_gemm_is_recorded_with_its_tensors(tmp_path: Path) -> None:
    """In a process of its own: it is of another architecture."""
    code = (
        "import json, sys, sm100sim; from benchmarks.timing import record_gemm as r;"
        "sm100sim.activate(sm_count=r.SMS); from benchmarks.timing.gemms import Gemm;"
        "launch, image, cubin = r.record(Gemm(512, 256, 128, (128, 128)), {});"
        "print(json.dumps([launch.grid, [p.tensor for p in launch.places], len(cubin)]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True,
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"},
    )  # fmt: skip
    grid, tensors, size = json.loads(done.stdout.splitlines()[-1])
    assert np.prod(grid) <= 132
    assert set(tensors) == {"a", "b", "out"}
    assert size > 1000
    assert Gemm(512, 256, 128, (128, 128)).shapes()["out"] == (512, 256)
