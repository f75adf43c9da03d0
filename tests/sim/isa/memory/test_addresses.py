"""Lanes whose bytes follow one another, and others: each gets its own, in every space."""

from __future__ import annotations

import numpy as np
import pytest

from testing.harness import SMEM, aligned, aligned_copy, run_ptx

RNG = np.random.default_rng(5)

ROWS = {
    "in order": np.arange(32),
    "backwards": np.arange(32)[::-1],
    "two swapped": np.array([1, 0, *range(2, 32)]),
    "one gap": np.array([*range(31), 32]),
    "all the same": np.full(32, 7),
}
"""Which element each lane takes."""
REGISTERS = {8: "%h9", 16: "%h9", 32: "%r9", 64: "%rd9"}


@pytest.mark.parametrize("bits", REGISTERS)
@pytest.mark.parametrize("space", [".global", "", ".shared"])
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("off", [32, 5])
def test_lanes_in_a_row_and_others(bits: int, space: str, row: str, off: int) -> None:
    """Each lane but one, if `off` is one, takes an element, wherever those of the others are."""
    size, reg = bits // 8, REGISTERS[bits]
    index, out = aligned_copy((ROWS[row] * size).astype(np.uint64)), aligned(32, np.uint64)
    source = aligned_copy(RNG.integers(0, 256, 40 * size, dtype=np.uint8))
    own = f"cvt.u64.u32 %rd1, %r0; mul.lo.u64 %rd5, %rd1, {size}; add.u64 %rd1, %p1, %rd5;"
    fill = f"""mov.u32 %r6, dyn; cvt.u32.u64 %r5, %rd5; add.u32 %r5, %r6, %r5;
    cvt.u32.u64 %r4, %rd4;
    ld.global.b{bits} {reg}, [%rd1]; st.shared.b{bits} [%r5], {reg};
    ld.global.b{bits} {reg}, [%rd1+{8 * size}]; st.shared.b{bits} [%r5+{8 * size}], {reg};
    bar.sync 0; add.u32 %r4, %r6, %r4;"""
    at = "%r4" if space == ".shared" else "%rd6"
    widen = "mov.b64 %rd7, %rd9;" if bits == 64 else f"cvt.u64.u{max(bits, 16)} %rd7, {reg};"
    run_ptx(
        f"""mov.u32 %r0, %tid.x; {own} mul.wide.u32 %rd3, %r0, 8; add.u64 %rd2, %p0, %rd3;
        ld.global.b64 %rd4, [%rd2]; add.u64 %rd6, %p1, %rd4; {fill if space == ".shared" else ""}
        setp.ne.u32 %q1, %r0, {off}; add.u64 %rd3, %p2, %rd3;
        @%q1 ld{space}.b{bits} {reg}, [{at}]; {widen} @%q1 st.global.b64 [%rd3], %rd7;""",
        index,
        source,
        out,
        shared=SMEM,
        smem=512,
    )
    want = source.view(f"u{size}")[ROWS[row]].astype(np.uint64)
    assert np.array_equal(out[np.arange(32) != off], want[np.arange(32) != off])
