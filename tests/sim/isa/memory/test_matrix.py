"""ldmatrix and stmatrix against the element maps of the PTX ISA figures."""

from __future__ import annotations

import numpy as np
import pytest

import sm100sim
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


def loaded(form: str, source: np.ndarray) -> np.ndarray:
    """[thread, register] that one ldmatrix gives of 32 rows of 16 bytes."""
    out = aligned(128, np.uint32)
    count = 4 if form.count(".x4") or form.count("m16n16.x2") else 2
    stores = "".join(f"st.global.b32 [%rd1+{4 * k}], %r{10 + k};" for k in range(count))
    body = f"ldmatrix.sync.aligned.{form} {registers(count)}, [%r3];"
    run_ptx(FILL + body + stores, source, out, shared=SMEM, smem=1024)
    return out.reshape(32, 4)[:, :count]


def packed_rows(elements: np.ndarray, bits: int) -> np.ndarray:
    """32 rows of 16 bytes with the elements at their low ends."""
    source = aligned(512, np.uint8)
    for r, row in enumerate(elements):
        value = sum(int(x) << bits * k for k, x in enumerate(row))
        source[16 * r : 16 * r + 16] = list(value.to_bytes(16, "little"))
    return source


@pytest.mark.parametrize(
    ("kind", "bits"), [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)]
)
@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_b8_16x16(kind: str, bits: int, count: int) -> None:
    """Thread t: rows 4(t%4) to 4(t%4) + 3 of column t/4 in a matrix's first register, of column
    t/4 + 8 in its second (PTX ISA: "4 consecutive columns across 2 rows" of the transposed)."""
    elements = np.random.default_rng(4).integers(0, 1 << bits, (32, 16))
    got = loaded(f"m16n16.x{count}.trans.shared.{kind}", packed_rows(elements, bits))
    for t in range(32):
        for j in range(2 * count):
            row, column = 16 * (j // 2) + 4 * (t % 4), t // 4 + 8 * (j % 2)
            quad = bytes(elements[row : row + 4, column].tolist())
            assert got[t, j] == int.from_bytes(quad, "little")


@pytest.mark.parametrize(("kind", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
@pytest.mark.parametrize("count", [2, 4])
def test_ldmatrix_packed_8x16(kind: str, bits: int, count: int) -> None:
    """Thread t, register j: four elements from 4(t%4) on of row t/4 of matrix j, a byte each."""
    elements = np.random.default_rng(5).integers(0, 1 << bits, (32, 16))
    got = loaded(f"m8n16.x{count}.shared.b8x16.{kind}", packed_rows(elements, bits))
    for t in range(32):
        for j in range(count):
            quad = bytes(elements[8 * j + t // 4, 4 * (t % 4) :][:4].tolist())
            assert got[t, j] == int.from_bytes(quad, "little")


@pytest.mark.parametrize(
    "form",
    ["m8n8.x2.shared.b8x16.b6x16_p32", "m8n16.x2.shared.b8",
     "m8n16.x2.trans.shared.b8x16.b4x16_p64", "m16n16.x4.trans.shared.b8", "m16n16.x2.shared.b8"],
)  # fmt: skip
def test_ldmatrix_forms_that_do_not_exist(form: str) -> None:
    """ptxas of CUDA 13.0 refuses them."""
    source = aligned(512, np.uint8)
    with pytest.raises(sm100sim.SimulationFault):
        loaded(form, source)


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
