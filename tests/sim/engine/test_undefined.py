"""The engine does nothing that C leaves undefined, in programs of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = (
    "tests/sim/isa",
    "tests/sim/check",
    "tests/sim/test_timeline.py",
    "tests/kernel/numerics/test_dense.py",
)


def under_checks(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a process whose engine is compiled with the checks."""
    line = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "tests.sim.engine.sanitized"]
    return subprocess.run(
        [*line, "-p", "no:cacheprovider", "-m", "not exhaustive", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.exhaustive
def test_no_instruction_does_what_c_leaves_undefined() -> None:
    done = under_checks(*PROGRAMS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
