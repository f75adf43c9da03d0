"""A CuTe DSL kernel for Hopper runs on the simulator as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hopper_gemm.py")


@pytest.mark.slow
def test_cute_dsl_gemm_for_sm_90a() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a", "PYTHONPATH": str(SCRIPT.parents[3])},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["target"]
    assert found["wgmma"] == 8
    for mode in ("fast", "late"):
        verdict, error = found[mode]
        assert verdict == "clean"
        assert error < 1e-4
