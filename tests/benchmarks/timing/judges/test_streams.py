"""Lines that leave the L2 by chance: reads and writes tell what copies take."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import pytest

from benchmarks.timing.judges.streams import Memory, streams, told

MACHINE = {16: 25875, 64: 73428, 128: 132622}
"""The machine's cycles of softmax kernels that read and write so many MiB, memory's alone."""


def test_reads_and_writes_tell_small_copies() -> None:
    measured = streams()
    copies = measured.pop("copy")
    memory = told(measured)
    off = {size: memory.cycles(size, size) / cycles - 1 for size, cycles in copies.items()}
    assert all(abs(off[size]) < 0.003 for size in (16, 32, 64))
    assert all(-0.065 < off[size] < -0.035 for size in (128, 256, 1024))
    assert memory.dirty * 2**20 == pytest.approx(49.9e6, rel=0.01)
    assert memory.gone == 64


def test_the_machine_drives_dirty_lines_out_first() -> None:
    predicted = json.loads(Path("benchmarks/timing/judges/predicted.json").read_text())
    name = "Triton softmax: Triton softmax 8192x{} 4 warps"
    assert predicted[name.format(1024)]["cycles"] == MACHINE[16]
    copies = streams()["copy"]
    off = [MACHINE[size] / copies[size] - 1 for size in MACHINE]
    assert off == pytest.approx([0.209, 0.084, 0.013], abs=0.001)


def test_what_only_reads_writes_what_was_dirty() -> None:
    memory = Memory(read=2, write=3, dirty=10, gone=5, begin=7)
    assert memory.cycles(5, 0) == pytest.approx(7 + 10 + 3 * 10 * (1 - exp(-1)))
    assert memory.cycles(0, 1e6) == pytest.approx(7 + 3 * (1e6 + 10 - 5))
