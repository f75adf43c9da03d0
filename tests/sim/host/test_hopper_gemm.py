"""A CuTe DSL kernel for Hopper runs on the simulator as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("hopper_gemm.py")


def run_script(path: Path) -> dict[str, Any]:
    """What a script for sm_90a prints last."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)],
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a", "PYTHONPATH": str(path.parents[3])},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_cute_dsl_gemm_for_sm_90a() -> None:
    found = run_script(SCRIPT)
    assert found["target"]
    assert found["wgmma"] == 8
    for mode in ("fast", "late"):
        verdict, error = found[mode]
        assert verdict == "clean"
        assert error < 1e-4


@pytest.mark.slow
def test_every_fault_of_its_wgmma_is_noticed() -> None:
    """But the second fence: between the steps nothing touches the registers of D."""
    found = run_script(SCRIPT.with_name("hopper_mutants.py"))
    assert found["clean"]
    kinds = {name.partition("@")[0] for name in found["mutants"]}
    assert kinds == {
        *("drop-wgmma", "drop-wgmma-fence", "drop-wgmma-commit", "drop-wgmma-wait"),
        *("weaker-wgmma-wait", "late-wgmma-wait", "early-wgmma-commit", "flip-scale-d"),
        *("a-k-step+", "a-row-group+", "a-row-group-", "a-wrong-stage"),
        *("b-k-step+", "b-row-group+", "b-row-group-", "b-wrong-stage"),
    }
    fences = [name for name in found["mutants"] if name.startswith("drop-wgmma-fence")]
    survivors = [name for name, how in found["mutants"].items() if not how]
    assert len(fences) == 2
    assert survivors == fences[1:]
