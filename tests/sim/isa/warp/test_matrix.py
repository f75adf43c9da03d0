"""mma.sync and movmatrix: fragments by the formulas of the PTX ISA, values against float64."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import aligned
from tests.sim.isa.tcgen05.mma_exact_reference import fused_sum, split, to_f32_toward_zero

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8, "u4": 4, "s4": 4,
    "f64": 64,
}  # fmt: skip
TORCH = {
    "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}  # fmt: skip
FORMS = [
    ("m16n8k8", "f16", "f16", "f16"), ("m16n8k16", "f16", "f16", "f32"),
    ("m16n8k8", "bf16", "bf16", "f32"), ("m16n8k16", "bf16", "bf16", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"), ("m16n8k8", "tf32", "tf32", "f32"),
    ("m16n8k16", "e4m3", "e5m2", "f32"), ("m16n8k32", "e5m2", "e4m3", "f16"),
    ("m16n8k32", "e4m3", "e4m3", "f32"), ("m8n8k16", "s8", "u8", "s32"),
    ("m16n8k16", "u8", "s8", "s32"), ("m16n8k32", "s8", "s8", "s32"),
    ("m8n8k32", "s4", "u4", "s32"), ("m16n8k32", "u4", "u4", "s32"),
    ("m16n8k64", "s4", "s4", "s32"), ("m8n8k4", "f64", "f64", "f64"),
    ("m16n8k4", "f64", "f64", "f64"), ("m16n8k8", "f64", "f64", "f64"),
    ("m16n8k16", "f64", "f64", "f64"),
]  # fmt: skip


def sizes(shape: str) -> tuple[int, int]:
    m, k = shape[1:].split("n8k")
    return int(m), int(k)


def random_codes(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Element codes; floats are small multiples of powers of two, so that sums are exact."""
    rng = np.random.default_rng(seed)
    if kind[0] in "us" and kind[1:].isdigit():
        return rng.integers(0, 1 << BITS[kind], shape).astype(np.uint64)
    small = rng.integers(-8, 9, shape) / 4.0
    if kind == "f64":
        return small.view(np.uint64)
    if kind == "tf32":  # the low 13 bits are ignored
        return small.astype(np.float32).view(np.uint32).astype(np.uint64) | np.uint64(0x1FFF)
    codes = torch.from_numpy(small).to(TORCH[kind])
    raw = codes.view(torch.uint8 if BITS[kind] == 8 else torch.int16).numpy()
    return raw.astype(np.uint64) & np.uint64((1 << BITS[kind]) - 1)


def values(kind: str, codes: np.ndarray) -> np.ndarray:
    if kind == "f64":
        return codes.view(np.float64)
    if kind == "tf32":
        return (codes & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)
    if kind in TORCH:
        kinds = (np.uint8, torch.uint8) if BITS[kind] == 8 else (np.int16, torch.int16)
        raw = codes.astype(np.uint16).astype(kinds[0])
        return torch.from_numpy(raw).view(TORCH[kind]).double().numpy()
    signed = codes.astype(np.int64)
    half = 1 << BITS[kind] - 1
    return np.where((kind[0] == "s") & (signed >= half), signed - 2 * half, signed).astype(float)


def fragment(codes: np.ndarray, bits: int) -> np.ndarray:
    """Registers [lane, register] of A (rows, or the columns of B as rows).

    Element i of a lane, e of them in a register: row groupID, and 8 more for odd registers of 16
    rows; column e * threadID_in_group + i % e, and 4 e more for each register (pair) before.
    """
    rows, k = codes.shape
    width, halves = max(bits, 32), rows // 8
    e = width // bits
    out = np.zeros((32, codes.size // 32 // e), np.uint64)
    for lane in range(32):
        for register in range(out.shape[1]):
            row = lane // 4 + 8 * (register % halves)
            column = e * (lane % 4) + 4 * e * (register // halves)
            for i in range(e):
                out[lane, register] |= codes[row, column + i] << np.uint64(bits * i)
    assert k == 4 * e * out.shape[1] // halves
    return out


def accumulator_places(rows: int) -> list[list[tuple[int, int]]]:
    """(row, column) of C and D by lane and element."""
    return [
        [(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for i in range(rows // 4)]
        for lane in range(32)
    ]


def multiply(
    form: tuple[str, str, str, str],
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    extra: str = "",
    ending: str = "",
    **options: Any,
) -> np.ndarray:
    """D [rows, 8] of one warp; a [rows, K], b [8, K] codes, c [rows, 8] in the type of D."""
    shape, kind_a, kind_b, kind_d = form
    rows = sizes(shape)[0]
    fragments = [fragment(a, BITS[kind_a]), fragment(b, BITS[kind_b])]
    held = np.zeros((32, rows // 4), c.dtype)
    for lane, cells in enumerate(accumulator_places(rows)):
        held[lane] = [c[cell] for cell in cells]
    size = 8 if kind_d == "f64" else 4
    words = [f.astype(np.uint64 if size == 8 else np.uint32) for f in fragments]
    words.append(held.view(words[0].dtype))
    inputs, names, text = [], [], ["mov.u32 %r0, %tid.x;"]
    prefix, used = ("%rd" if size == 8 else "%r"), 10
    for number, array in enumerate(words):
        inputs.append(np.ascontiguousarray(array))
        count = array.shape[1]
        text.append(f"mad.wide.u32 %rd1, %r0, {size * count}, %p{number};")
        registers = [f"{prefix}{used + k}" for k in range(count)]
        text += [f"ld.global.b{8 * size} {r}, [%rd1+{size * k}];" for k, r in enumerate(registers)]
        names.append("{" + ", ".join(registers) + "}")
        used += count
    out = np.zeros_like(inputs[2])
    count = out.shape[1]
    result = [f"{prefix}{used + k}" for k in range(count)]
    text.append(
        f"mma.sync.aligned.{shape}.row.col{extra}.{kind_d}.{kind_a}.{kind_b}.{kind_d}{ending} "
        f"{{{', '.join(result)}}}, {', '.join(names)}; mad.wide.u32 %rd1, %r0, {size * count}, %p3;"
    )
    text += [f"st.global.b{8 * size} [%rd1+{size * k}], {r};" for k, r in enumerate(result)]
    assert run_ptx("\n".join(text), *inputs, out, **options).verdict == "clean"
    d = np.zeros((rows, 8), c.dtype)
    for lane, cells in enumerate(accumulator_places(rows)):
        for cell, value in zip(cells, out.view(c.dtype)[lane], strict=True):
            d[cell] = value
    return d


RESULT = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}


@pytest.mark.parametrize("form", FORMS, ids="-".join)
@pytest.mark.parametrize("exact", [False, True])
def test_products(form: tuple[str, str, str, str], exact: bool) -> None:
    shape, kind_a, kind_b, kind_d = form
    rows, k = sizes(shape)
    a, b = random_codes(kind_a, (rows, k), 1), random_codes(kind_b, (8, k), 2)
    c = np.random.default_rng(3).integers(-50, 50, (rows, 8)).astype(RESULT[kind_d])
    expected = c.astype(np.float64) + values(kind_a, a) @ values(kind_b, b).T
    assert (multiply(form, a, b, c, exact_mma=exact) == expected.astype(c.dtype)).all()


@pytest.mark.parametrize("place", ["extra", "ending"])
def test_the_rounding_of_doubles_may_be_spelled_out(place: str) -> None:
    """CUTLASS (mma_sm90.h) writes .rn behind the types."""
    form = ("m16n8k4", "f64", "f64", "f64")
    a, b = random_codes("f64", (16, 4), 1), random_codes("f64", (8, 4), 2)
    c = np.zeros((16, 8))
    got = multiply(form, a, b, c, **{place: ".rn"})
    assert (got == values("f64", a) @ values("f64", b).T).all()


def test_elements_of_m16n8k16_as_the_isa_lists_them() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"."""
    codes = np.arange(256, dtype=np.uint64).reshape(16, 16)
    held = fragment(codes, 16)
    for lane in range(32):
        for i in range(8):
            row = lane // 4 + (0 if i < 2 or 4 <= i < 6 else 8)
            column = lane % 4 * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert int(held[lane, i // 2]) >> 16 * (i % 2) & 0xFFFF == codes[row, column]
    columns = fragment(codes[:8], 16)
    for lane in range(32):
        for i in range(4):
            at = lane % 4 * 2 + (i & 1) + (8 if i >= 2 else 0)
            assert int(columns[lane, i // 2]) >> 16 * (i % 2) & 0xFFFF == codes[lane // 4, at]


def test_elements_of_m16n8k32_as_the_isa_lists_them() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k32", 8-bit elements."""
    codes = (np.arange(512, dtype=np.uint64) % 251).reshape(16, 32)
    held = fragment(codes, 8)
    for lane in range(32):
        for i in range(16):
            row = lane // 4 + (0 if i < 4 or 8 <= i < 12 else 8)
            column = lane % 4 * 4 + (i & 3) + (16 if i >= 8 else 0)
            assert int(held[lane, i // 4]) >> 8 * (i % 4) & 0xFF == codes[row, column]


def test_integers_wrap_or_saturate() -> None:
    form = ("m16n8k32", "u8", "u8", "s32")
    a, b = np.full((16, 32), 255, np.uint64), np.full((8, 32), 255, np.uint64)
    c = np.full((16, 8), 2**31 - 1, np.int32)
    assert (multiply(form, a, b, c) == 2**31 - 1 + 32 * 255**2 - 2**32).all()
    assert (multiply(form, a, b, c, ".satfinite") == 2**31 - 1).all()


def test_the_bit_level_model_cuts_terms() -> None:
    """The model of tcgen05.mma over the instruction's whole K (inferred for mma.sync)."""
    rng = np.random.default_rng(5)
    a, b = (torch.from_numpy(rng.normal(size=(n, 16)) * 2.0 ** rng.integers(-9, 9, (n, 16))).half()
            for n in (16, 8))  # fmt: skip
    c = rng.normal(size=(16, 8)).astype(np.float32)
    code_a, code_b = (x.view(torch.int16).numpy().astype(np.uint16).astype(np.uint64)
                      for x in (a, b))  # fmt: skip
    d = multiply(("m16n8k16", "f16", "f16", "f32"), code_a, code_b, c, exact_mma=True)
    expected = np.zeros((16, 8), np.uint32)
    for row in range(16):
        for column in range(8):
            terms: list[tuple[Fraction, int]] = [split(float(c[row, column]), -126)]
            for x, y in zip(a[row].tolist(), b[column].tolist(), strict=True):
                (sx, ex), (sy, ey) = split(x, -14), split(y, -14)
                terms.append((sx * sy, ex + ey))
            expected[row, column] = to_f32_toward_zero(fused_sum(terms, 25))
    assert (d.view(np.uint32) == expected).all()
    plain = multiply(("m16n8k16", "f16", "f16", "f32"), code_a, code_b, c)
    assert (plain == (c + a.double().numpy() @ b.double().numpy().T).astype(np.float32)).all()
    assert (plain != d).any()


def test_movmatrix_transposes() -> None:
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    out = aligned(32, np.uint32)
    body = (
        "mov.u32 %r0, %tid.x; mad.wide.u32 %rd1, %r0, 4, %p0; ld.global.b32 %r1, [%rd1];"
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; mad.wide.u32 %rd1, %r0, 4, %p1;"
        "st.global.b32 [%rd1], %r2;"
    )
    run_ptx(body, matrix, out)
    assert (out.view(np.uint16).reshape(8, 8) == matrix.T).all()


PLAIN = "{%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4}"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("m16n8k16.row.row.f32.f16.f16.f32", "expected one of .col"),
        ("m16n8k16.row.col.f32.f16.bf16.f32", "A of type .f16 does not go with B of type .bf16"),
        ("m16n8k16.row.col.f16.bf16.bf16.f16", "type .bf16 accumulates in .f32"),
        ("m16n8k16.row.col.f32.f16.f16.f16", "C and D alike"),
        ("m16n8k32.row.col.f32.f16.f16.f32", "type .f16 has the shapes m16n8k8, m16n8k16"),
        ("m16n8k16.row.col.satfinite.f32.f16.f16.f32", ".satfinite belongs to integer types"),
        ("m16n8k8.row.col.f32.f16.f16.f32", "A has 2 registers, 4 are given"),
        ("m8n8k4.row.col.f32.f16.f16.f32", "type .f16 has the shapes"),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "types of A and B are of"),
        ("row.col.f32.f16.f16.f32", "mma needs a shape"),
    ],
)
def test_what_is_no_form_stops(form: str, words: str) -> None:
    with pytest.raises(UnsupportedExecuted) as caught:
        run_ptx(f"mma.sync.aligned.{form} {PLAIN};")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "form", ["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " + PLAIN,
             "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2"],
)  # fmt: skip
def test_all_lanes_take_part(form: str) -> None:
    body = "mov.u32 %r0, %tid.x; setp.lt.u32 %q1, %r0, 8; @%q1 bra OVER; {}; OVER:"
    with pytest.raises(SimulationFault):
        run_ptx(body.format(form))
