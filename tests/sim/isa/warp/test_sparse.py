"""mma.sp and single bits: values by the formulas of the PTX ISA, "Sparse matrix storage"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.hardware.case import Case
from testing.hardware.micro.mma.programs import BITS, Form, case
from testing.hardware.simulate import simulate
from tests.sim.isa.warp.test_matrix import RESULT, accumulator_places, values

FORMS = [
    Form("f32", "f16", "f16", 16, 16, 3), Form("f16", "f16", "f16", 16, 32, 1),
    Form("f32", "bf16", "bf16", 16, 32, 0), Form("f32", "tf32", "tf32", 16, 8, 2),
    Form("f32", "tf32", "tf32", 16, 16, 1), Form("f32", "e4m3", "e5m2", 16, 64, 0),
    Form("s32", "s8", "u8", 16, 32, 1), Form("s32", "u8", "u8", 16, 64, 0),
    Form("s32", "s4", "u4", 16, 64, 1), Form("s32", "s4", "s4", 16, 128, 0),
    Form("s32", "s8", "s8", 16, 64, 0, more=".satfinite"),
]  # fmt: skip


def codes(words: npt.NDArray[np.uint32], bits: int, rows: int) -> npt.NDArray[np.uint64]:
    """Elements [row, column] of a fragment [lane, register]: `fragment` of test_matrix, back."""
    halves, per = rows // 8, 32 // bits
    out = np.zeros((rows, 4 * per * words.shape[1] // halves), np.uint64)
    for (lane, register), word in np.ndenumerate(words):
        for i in range(per):
            column = per * (lane % 4) + 4 * per * (register // halves) + i
            value = int(word) >> bits * i & (1 << bits) - 1
            out[lane // 4 + 8 * (register % halves), column] = value
    return out


def places(form: Form, words: npt.NDArray[np.uint32], row: int) -> list[int]:
    """Columns of the kept elements of a row, from the metadata of its four lanes: one smaller shape
    after the other, row and row + 8 (recorded on an H100)."""
    assert form.selector is not None
    bits = BITS[form.a]
    wide, per = {32: (2, 1), 4: (8, 4)}.get(bits, (4, 2))
    chunks = form.k // wide
    group = row % 8 * 4
    stream = b"".join(int(words[group + k]).to_bytes(4, "little") for k in range(4))
    lanes = 2 * 4 * chunks // 32
    each = 4 if bits > 8 else 8  # chunks of a row in the smaller of two shapes
    out = []
    for chunk in range(chunks):
        at = 32 * lanes * form.selector + 8 * each * (chunk // each)
        at += 4 * each * (row // 8) + 4 * (chunk % each)
        nibble = int.from_bytes(stream, "little") >> at & 15
        pair = [nibble & 3, nibble >> 2]
        if per == 1:
            inside = [int(nibble == 0xE)]
        else:
            inside = pair if per == 2 else [2 * i + e for i in pair for e in (0, 1)]
        out += [wide * chunk + i for i in inside]
    return out


def expected(form: Form, program: Case) -> npt.NDArray[np.float64]:
    """D [16, 8] before it is rounded to its type."""
    na, nb, _ = form.counts
    kept = values(form.a, codes(program.inputs[0].reshape(32, na), BITS[form.a], 16))
    b = values(form.b, codes(program.inputs[1].reshape(32, nb), BITS[form.b], 8))
    held = program.inputs[2].view(RESULT[form.d]).reshape(32, 4)
    d = np.zeros((16, 8))
    for lane, cells in enumerate(accumulator_places(16)):
        for e, cell in enumerate(cells):
            d[cell] = held[lane, e]
    for row in range(16):
        at = places(form, program.inputs[3], row)
        d[row] += kept[row] @ b[:, at].T
    return d


def result(form: Form, program: Case, **options: object) -> npt.NDArray[np.float64]:
    """What the program stores, as D [16, 8]."""
    held = simulate(program, **options)[0].view(RESULT[form.d]).reshape(32, 4)
    d = np.zeros((16, 8))
    for lane, cells in enumerate(accumulator_places(16)):
        for e, cell in enumerate(cells):
            d[cell] = held[lane, e]
    return d


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.mnemonic)
@pytest.mark.parametrize("exact", [False, True])
def test_products(form: Form, exact: bool) -> None:
    program = case(form, "test")
    want = expected(form, program)
    if form.d == "s32":
        low, high = -(2**31), 2**31 - 1
        want = np.clip(want, low, high) if form.more else (want + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(result(form, program, exact_mma=exact, checks="all"), want)


def test_the_zeros_of_a_are_no_factors() -> None:
    """B may be infinite where A has nothing."""
    form = Form("f32", "f16", "f16", 16, 16, 0)
    program = case(form, "test")
    metadata = np.full(32, 0x44444444, np.uint32)
    b = program.inputs[1].view(np.uint16).reshape(32, 2, 2).copy()
    b[1::2] = 0x7C00  # columns 2 and 3 of every four
    program = replace(program, inputs=(program.inputs[0], b.ravel().view(np.uint32),
                                       program.inputs[2], metadata))  # fmt: skip
    assert np.isfinite(result(form, program)).all()


@pytest.mark.parametrize(
    ("a", "k", "ordered", "nibble", "right"),
    [
        ("f16", 32, True, 0x4, True), ("f16", 32, True, 0x1, False), ("f16", 32, False, 0x1, True),
        ("f16", 32, False, 0x5, False), ("s4", 64, True, 0x0, False), ("tf32", 16, True, 0xE, True),
        ("tf32", 16, True, 0x9, False),
    ],
)  # fmt: skip
def test_metadata_without_meaning(a: str, k: int, ordered: bool, nibble: int, right: bool) -> None:
    form = Form("s32" if a == "s4" else "f32", a, a, 16, k, 1, ordered)
    program = case(form, "test")
    held = np.full(32, 0x11111111 * (0xE if a == "tf32" else 0x4), np.uint32)
    held[3] = held[3] & ~np.uint32(0xF00) | np.uint32(nibble << 8)
    program = replace(program, inputs=(*program.inputs[:3], held))
    if right:
        simulate(program)
        return
    row = 8 if a == "s4" else 0
    words = f"sparse-metadata: row {row} of A: the metadata 0x{nibble:x} of a chunk"
    with pytest.raises(SimulationFault, match=words):
        simulate(program)


@pytest.mark.parametrize("operation", ["and", "xor"])
@pytest.mark.parametrize(("m", "k"), [(8, 128), (16, 128), (16, 256)])
def test_single_bits(operation: str, m: int, k: int) -> None:
    form = Form("s32", "b1", "b1", m, k, more=f".{operation}.popc")
    program = case(form, "test")
    na, nb, nc = form.counts
    a, b = (codes(words.reshape(32, n), 1, rows).astype(bool)
            for words, n, rows in zip(program.inputs, (na, nb), (m, 8), strict=False))  # fmt: skip
    both = a[:, None] & b[None] if operation == "and" else a[:, None] ^ b[None]
    got = simulate(program)[0].view(np.int32).reshape(32, nc)
    held = program.inputs[2].view(np.int32).reshape(32, nc)
    for lane, cells in enumerate(accumulator_places(m)):
        for e, cell in enumerate(cells):
            assert got[lane, e] == (int(held[lane, e]) + both.sum(2)[cell] + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", 1;", ", 2;", "sparsity selector 2: expected 0 to 1"),
        ("k32", "k16", "A has 2 registers, 4 are given"),
        ("k32", "k8", "has the shapes m16n8k16, m16n8k32, not m16n8k8, with a sparse A"),
        ("f32.f16.f16.f32", "f16.e4m3.e4m3.f16", "has the shapes m16n8k64"),
        (".row.col", ".row.col.popc", "expected one of .and, .xor"),
    ],
)  # fmt: skip
def test_what_is_no_form_stops(old: str, new: str, words: str) -> None:
    program = case(Form("f32", "f16", "f16", 16, 32, 1), "test")
    assert old in program.body
    with pytest.raises(UnsupportedExecuted) as caught:
        simulate(replace(program, body=program.body.replace(old, new)))
    assert words in str(caught.value)
