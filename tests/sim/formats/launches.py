"""Launches with something to write about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sm100sim.report import Report
from testing.harness import SMEM, run_ptx

PROGRAM = "def reverse(s, a, o, t):\n    s[t] = a[t]\n    o[t] = s[63 - t]\n"
RACE = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; mad.lo.u32 %r3, %r1, 4, %r2;\n"
    ".loc 1 2 4\nst.shared.u32 [%r3], %r1;\n"
    ".loc 1 3 4\nxor.b32 %r4, %r1, 63; mad.lo.u32 %r3, %r4, 4, %r2;\nld.shared.u32 %r5, [%r3];\n"
)


def race(folder: Path, body: str = RACE, **options: Any) -> Report:
    """A race between lines 2 and 3 of `kernel &.py` in a folder."""
    source = folder / "kernel &.py"
    source.write_text(PROGRAM)
    used = {"checks": "races", "raise_on_fault": False, **options}
    return run_ptx(
        body, np.zeros(64, np.uint32), shared=f'{SMEM}\n.file 1 "{source}"', smem=256, block=64,
        **used,
    )  # fmt: skip


def stopped(folder: Path) -> Report:
    """A launch that stops at a PTX line of no source line."""
    return race(folder, "trap;")
