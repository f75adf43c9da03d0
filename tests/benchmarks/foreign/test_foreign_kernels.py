"""A few kernels from PyPI packages, each package in a fresh process; benchmarks/foreign has all."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def missing(*modules: str) -> bool:
    try:
        return any(importlib.util.find_spec(module) is None for module in modules)
    except ModuleNotFoundError:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "only", "arch"),
    [
        pytest.param(
            "flash_attn.cute",
            "^fa4_(fwd_d128_2cta|api_d128_ragged)$",
            "sm_100a",
            marks=pytest.mark.skipif(missing("flash_attn.cute", "quack"), reason="no flash-attn-4"),
            id="flash-attn-4",
        ),
        pytest.param(
            "quack",
            "^quack_(softmax_cluster|gemm)$",
            "sm_100a",
            marks=[
                pytest.mark.exhaustive,
                pytest.mark.skipif(
                    missing("quack", "triton"), reason="quack-kernels or triton is not installed"
                ),
            ],
            id="quack-kernels",
        ),
        pytest.param(
            "flash_attn.cute",
            "^(fa4_hopper_d128_ragged|quack_hopper_gemm_cluster)$",
            "sm_90a",
            marks=[
                pytest.mark.exhaustive,
                pytest.mark.skipif(
                    missing("flash_attn.cute", "quack", "triton"), reason="no flash-attn-4"
                ),
            ],
            id="hopper",
        ),
    ],
)
def test_kernels_of_a_package_run(
    module: str, only: str, arch: str, tmp_path: Path
) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    command = ["benchmarks.foreign.run_all", "--only", only]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--json", str(results), "--markdown", str(page)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "CUTE_DSL_ARCH": arch,
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert results.is_file(), done.stderr[-3000:]
    rows = json.loads(results.read_text())
    assert len(rows) == 2, f"{module}: {[row['name'] for row in rows]}"
    assert {row["name"]: row["status"] for row in rows if row["status"] != "ok"} == {}
