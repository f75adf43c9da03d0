"""Tensor and bulk copies against what an H200 did with the same programs
(benchmarks/hopper/README.md).

The copy engine of sm_90 and sm_100 share these forms; every program writes 4 KiB of shared memory,
the
outcome of its wait, and the global array.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of

BOX = 4096
DATA = json.loads((Path(__file__).parents[2] / "data" / "tma-probes-h200.json").read_text())
ROWS: list[dict[str, Any]] = DATA["rows"]
FAULTS = {
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": (
        "tma-coordinate",
        "has no form for the tensor map's element type",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": ("misaligned",),
}


def unpack(text: str) -> np.ndarray:
    raw = zlib.decompress(base64.b64decode(text))
    out = aligned(len(raw), np.uint8)
    out[:] = np.frombuffer(raw, np.uint8)
    return out


def operands(row: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, bytes]:
    source = unpack(DATA["sources"][row["source"]])
    raw = source.ctypes.data.to_bytes(8, "little") + bytes.fromhex(row["map"])[8:]
    return source, aligned(BOX + 4, np.uint8), raw.ljust(128, b"\0")


@pytest.mark.parametrize("row", [r for r in ROWS if "error" not in r], ids=lambda r: r["name"])
def test_same_bytes_as_the_chip(row: dict[str, Any]) -> None:
    source, out, raw = operands(row)
    run_ptx(row["body"], source, out, raw, row["number"], shared=SMEM, smem=1024 + BOX + 1024)
    expected = unpack(DATA["sources"][row["source"]])
    if "changed" in row:
        first, text = row["changed"]
        changed = unpack(text)
        expected[first : first + changed.size] = changed
    assert (source == expected).all()
    assert (out == unpack(row["shared"])).all()


@pytest.mark.parametrize("row", [r for r in ROWS if "error" in r], ids=lambda r: r["name"])
def test_faults_where_the_chip_does(row: dict[str, Any]) -> None:
    codes = next(ours for theirs, ours in FAULTS.items() if theirs in row["error"])
    text = fault_of(row["body"], *operands(row), row["number"], shared=SMEM, smem=1024 + BOX + 1024)
    assert any(code in text for code in codes)
