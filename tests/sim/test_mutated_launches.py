"""Thousands of launches with something wrong in them end in words, see :mod:`tests.sim.mutated`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault
from testing.harness import SMEM, run_ptx

ROOT = Path(__file__).resolve().parents[2]
BATCH = 1000

ADDRESSES = {
    "null": 0, "one": 1, "last": 2**64 - 1, "last word": 2**64 - 8, "kernel": 0xFFFF800000000000,
    "no canonical form": 0x8000000000000000, "shared": 0x400, "end of shared": 0x400 + 4096,
    "window": 1 << 56, "rank 255": 0xFF000400,
}  # fmt: skip
ACCESSES = (
    "ld.global.b32 %r1, [%rd1];", "st.global.b32 [%rd1], %r1;", "ld.b32 %r1, [%rd1];",
    "st.b32 [%rd1], %r1;", "atom.global.add.u32 %r1, [%rd1], 1;", "red.global.add.u32 [%rd1], 1;",
    "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];", "ld.shared.b32 %r1, [%rd1];",
    "st.shared.b64 [%rd1], %rd2;", "ld.local.b32 %r1, [%rd1];", "ld.param.b32 %r1, [%rd1];",
    "ld.const.b32 %r1, [%rd1];", "cp.async.ca.shared.global [%rd2], [%rd1], 16;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd2], [%rd1], 64, [%rd2];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%rd2], 1024;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%rd2], 1024;",
    "mbarrier.init.shared.b64 [%rd1], 1;", "mbarrier.arrive.shared.b64 %rd3, [%rd1];",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%rd1];",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%rd1], {%r1, %r2, %r3, %r4};",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd1;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%rd1], 32;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
)  # fmt: skip


def make(first: int, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.sim.mutated", str(first), str(count)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=540,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"launch {lines[-1]} ended the process: {done.stderr}"
    assert [line for line in lines if not line.isdigit()] == []
    assert lines == [str(k) for k in range(first, first + count)]


def test_some_launches_with_something_wrong_end_in_words() -> None:
    make(0, 300)


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", range(6))
def test_launches_with_something_wrong_end_in_words(batch: int) -> None:
    make((batch + 1) * BATCH, BATCH)


@pytest.mark.parametrize("access", ACCESSES)
def test_no_wild_address_is_followed(access: str) -> None:
    """A fault, a finding, or, in memory of the launch, nothing."""
    known = np.full(4096, 0xA5, np.uint8)
    here = int(known.ctypes.data)
    beside = {"below": here - 4, "behind": here + 4096, "across": here + 4093, "code": id(make)}
    for name, address in {**ADDRESSES, **beside}.items():
        body = f"mov.u64 %rd1, {address}; mov.u64 %rd2, 1024; mov.b32 %r1, 0;\n{access}"
        for checks in (Check.NONE, Check.ALL):
            try:
                run_ptx(body, known, checks=checks, smem=4096, shared=SMEM, max_instructions=10_000)
            except SimulationFault:
                continue
            assert address < 2**32 or name == "across", f"{name} is accepted"
    assert (known == 0xA5).all()
