"""ldmatrix and stmatrix against the element maps of the PTX ISA figures."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, fault_of

FILL = """
mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2;
mad.wide.u32 %rd0, %r0, 16, %p0; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd0];
st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7}; mad.wide.u32 %rd1, %r0, 16, %p1; bar.warp.sync -1;
"""
DRAIN = """
bar.warp.sync -1; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];
st.global.v4.b32 [%rd1], {%r4, %r5, %r6, %r7};
"""


def registers(count: int) -> str:
    return "{" + ", ".join(f"%r{10 + k}" for k in range(count)) + "}"


def expected_b16(rows: np.ndarray, count: int, trans: bool) -> np.ndarray:
    """[thread, register] of 8x8 b16 matrices whose rows are `rows` (32 x 8 u16)."""
    out = np.zeros((32, 4), np.uint32)
    for j in range(count):
        matrix = rows[8 * j : 8 * j + 8]
        matrix = matrix.T if trans else matrix
        for t in range(32):
            low, high = matrix[t // 4, 2 * (t % 4)], matrix[t // 4, 2 * (t % 4) + 1]
            out[t, j] = int(low) | int(high) << 16
    return out


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_b16(count: int, trans: bool) -> None:
    source = aligned(256, np.uint16)
    source[:] = np.arange(256)
    out = aligned(128, np.uint32)
    form = (
        f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16 "
        f"{registers(count)}, [%r3];"
    )
    stores = "".join(f"st.global.b32 [%rd1+{4 * k}], %r{10 + k};" for k in range(count))
    run_ptx(FILL + form + stores, source, out, shared=SMEM, smem=1024)
    assert (out.reshape(32, 4) == expected_b16(source.reshape(32, 8), count, trans)).all()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_b16_inverts_ldmatrix(count: int, trans: bool) -> None:
    rows = np.random.default_rng(2).integers(0, 65536, (32, 8)).astype(np.uint16)
    fragments = aligned(128, np.uint32)
    fragments[:] = expected_b16(rows, count, trans).ravel()
    out = aligned(256, np.uint16)
    load = (
        "mov.b32 {%h0, %h1}, %r4; mov.b32 %r10, %r4; mov.b32 %r11, %r5; "
        "mov.b32 %r12, %r6; mov.b32 %r13, %r7;"
    )
    form = (
        f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16 "
        f"[%r3], {registers(count)};"
    )
    run_ptx(
        FILL + load + "st.shared.v4.b32 [%r3], {0, 0, 0, 0}; bar.warp.sync -1;" + form + DRAIN,
        fragments,
        out,
        shared=SMEM,
        smem=1024,
    )
    assert (out.reshape(32, 8)[: 8 * count] == rows[: 8 * count]).all()
    assert (out.reshape(32, 8)[8 * count :] == 0).all()


def test_ldmatrix_b8_16x16() -> None:
    """Thread t, register j of one matrix: rows 4(t%4) + 2j + {0, 1}, columns t/4 and t/4 + 8
    (CUTLASS traits)."""
    source = aligned(512, np.uint8)
    source[:] = np.random.default_rng(4).integers(0, 256, 512)
    out = aligned(128, np.uint32)
    stores = "".join(f"st.global.b32 [%rd1+{4 * k}], %r{10 + k};" for k in range(4))
    run_ptx(
        FILL + f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {registers(4)}, [%r3];" + stores,
        source,
        out,
        shared=SMEM,
        smem=1024,
    )
    rows = source.reshape(2, 16, 16)
    for t in range(32):
        for j in range(4):
            row, column = 4 * (t % 4) + 2 * (j % 2), t // 4
            quad = [rows[j // 2, row + b, column + c] for c in (0, 8) for b in (0, 1)]
            assert out.reshape(32, 4)[t, j] == int.from_bytes(bytes(quad), "little")


def test_stmatrix_b8_16x8() -> None:
    fragments = aligned(128, np.uint32)
    fragments[:] = np.random.default_rng(6).integers(0, 2**32, 128)
    out = aligned(512, np.uint8)
    load = "mov.b32 %r10, %r4; mov.b32 %r11, %r5; mov.b32 %r12, %r6; mov.b32 %r13, %r7;"
    run_ptx(
        FILL
        + load
        + f"stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r3], {registers(4)};"
        + DRAIN,
        fragments,
        out,
        shared=SMEM,
        smem=1024,
    )
    rows = out.reshape(32, 16)
    for t in range(32):
        for j in range(4):
            row, column = 8 * j + 2 * (t % 4), t // 4
            quad = [rows[row + b, column + c] for c in (0, 8) for b in (0, 1)]
            assert fragments.reshape(32, 4)[t, j] == int.from_bytes(bytes(quad), "little")


def test_row_addresses_are_checked() -> None:
    base = "mov.u32 %r1, dyn; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, "
    assert "misaligned" in fault_of(base + "[%r1+8];", shared=SMEM, smem=1024)
    assert "shared-address" in fault_of(base + "[%r1+1024];", shared=SMEM, smem=1024)
    run_ptx(base + "[%r1+1008];", shared=SMEM, smem=1024)
