"""Integer instructions against Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sm100sim.ptx.errors import PtxError
from testing.harness import lanewise, run_ptx

EDGES = {
    16: [0, 1, 2, 7, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF, 0x1234],
    32: [0, 1, 2, 31, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678],
    64: [0, 1, 2, 63, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1, 0x123456789ABCDEF0],
}


def pairs(bits: int) -> tuple[np.ndarray, np.ndarray]:
    kind = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    rng = np.random.default_rng(bits)
    edge = [(a, b) for a in EDGES[bits] for b in EDGES[bits]]
    more = [
        (int(a), int(b))
        for a, b in rng.integers(0, 2**bits, (60, 2), dtype=np.uint64 if bits == 64 else np.int64)
    ]
    both = np.array(edge + more, dtype=kind)
    return both[:, 0].copy(), both[:, 1].copy()


def signed(value: int, bits: int) -> int:
    return value - 2**bits if value >> (bits - 1) else value


def read(value: int, kind: str) -> int:
    return signed(value, int(kind[1:])) if kind[0] == "s" else value


def truncated_division(a: int, b: int) -> tuple[int, int]:
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return q, a - q * b


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul.lo": lambda a, b, n: a * b,
    "mul.hi": lambda a, b, n: (a * b) >> n,
    "min": lambda a, b, n: min(a, b),
    "max": lambda a, b, n: max(a, b),
    "div": lambda a, b, n: truncated_division(a, b)[0],
    "rem": lambda a, b, n: truncated_division(a, b)[1],
}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", sorted(BINARY))
def test_two_operands(op: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    if op in ("div", "rem"):
        b[b == 0] = 3
    (got,) = lanewise(f"{op}.{kind} out0, in0, in1;", a, b, out=a.dtype)
    want = [
        BINARY[op](read(int(x), kind), read(int(y), kind), bits) % 2**bits
        for x, y in zip(a, b, strict=True)
    ]
    assert [int(x) for x in got] == want


@pytest.mark.parametrize("kind", ["u32", "s32", "u16", "s16"])
def test_wide_products(kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    (got,) = lanewise(
        f"mul.wide.{kind} out0, in0, in1;", a, b, out={16: np.uint32, 32: np.uint64}[bits]
    )
    want = [read(int(x), kind) * read(int(y), kind) % 4**bits for x, y in zip(a, b, strict=True)]
    assert [int(x) for x in got] == want


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_mad_adds_modulo(kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    e = a[::-1].copy()
    (got,) = lanewise(f"mad.lo.{kind} out0, in0, in1, in2;", a, b, e, out=a.dtype)
    want = [(int(x) * int(y) + int(z)) % 2**bits for x, y, z in zip(a, b, e, strict=True)]
    assert [int(x) for x in got] == want


@pytest.mark.parametrize("op", ["popc", "clz", "brev", "bfind"])
@pytest.mark.parametrize("bits", [32, 64])
def test_bit_counts(op: str, bits: int) -> None:
    a, _ = pairs(bits)
    text = [f"{int(x):0{bits}b}" for x in a]
    want = {
        "popc": [t.count("1") for t in text],
        "clz": [len(t) - len(t.lstrip("0")) for t in text],
        "brev": [int(t[::-1], 2) for t in text],
        "bfind": [bits - 1 - t.index("1") if "1" in t else 0xFFFFFFFF for t in text],
    }[op]
    kind = "u" if op == "bfind" else "b"
    out = a.dtype if op == "brev" else np.uint32
    (got,) = lanewise(f"{op}.{kind}{bits} out0, in0;", a, out=out)
    assert [int(x) for x in got] == want


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_bit_masks(mode: str) -> None:
    """PTX ISA, "Integer Arithmetic Instructions: bmsk"."""
    edges = [0, 1, 5, 30, 31, 32, 33, 40, 2**31, 2**32 - 1]
    pairs = np.array([(p, n) for p in edges for n in edges], np.uint32)
    pos, size = pairs.T.copy()
    (got,) = lanewise(f"bmsk.{mode}.b32 out0, in0, in1;", pos, size, out=np.uint32)
    for p, n, mask in zip(pos.tolist(), size.tolist(), got.tolist(), strict=True):
        first, count = (p % 32, n % 32) if mode == "wrap" else (p, min(n, 32))
        ones = [k for k in range(32) if first <= k < first + count]
        assert mask == sum(1 << k for k in ones), (p, n)


def test_bit_fields() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2**32, (2, 200), dtype=np.uint64).astype(np.uint32)
    pos, size = rng.integers(0, 40, (2, 200)).astype(np.uint32)
    unsigned, sign, insert = (
        lanewise(f"{op} out0, {args};", a, b, pos, size, out=np.uint32)[0]
        for op, args in (
            ("bfe.u32", "in0, in2, in3"),
            ("bfe.s32", "in0, in2, in3"),
            ("bfi.b32", "in0, in1, in2, in3"),
        )
    )
    for k in range(200):
        x, y, p, n = int(a[k]), int(b[k]), int(pos[k]), int(size[k])
        field = (x >> p if p < 32 else 0) & (2**n - 1)
        assert int(unsigned[k]) == field % 2**32
        top = min(p + n - 1, 31)
        negative = n > 0 and (x >> top) & 1
        present = max(0, min(n, 32 - p))
        want = field | (2**32 - 2**present if negative else 0)
        assert int(sign[k]) == want % 2**32
        mask = ((2**n - 1) << p) & 0xFFFFFFFF if p < 32 else 0
        assert int(insert[k]) == (y & ~mask & 0xFFFFFFFF) | ((x << p) & mask)


@pytest.mark.parametrize("op", ["shl.b", "shr.u", "shr.s"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shift_amounts_are_clamped(op: str, bits: int) -> None:
    a, _ = pairs(bits)
    n = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 255, 2**31], np.uint32), len(a))
    (got,) = lanewise(f"{op}{bits} out0, in0, in1;", a, n, out=a.dtype)
    for x, k, out in zip(a, n, got, strict=True):
        value = signed(int(x), bits) if op == "shr.s" else int(x)
        want = value << min(int(k), bits) if op == "shl.b" else value >> min(int(k), bits)
        assert int(out) == want % 2**bits


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0x1B])
def test_lop3_is_a_truth_table(table: int) -> None:
    a, b, e = (
        np.random.default_rng(table).integers(0, 2**32, (3, 40), dtype=np.uint64).astype(np.uint32)
    )
    (got,) = lanewise(f"lop3.b32 out0, in0, in1, in2, {table};", a, b, e, out=np.uint32)
    want = np.zeros_like(a)
    for bit in range(32):
        index = ((a >> bit & 1) << 2) | ((b >> bit & 1) << 1) | (e >> bit & 1)
        want |= ((table >> index) & 1).astype(np.uint32) << np.uint32(bit)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("mode", ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"])
def test_prmt_selects_bytes(mode: str) -> None:
    rows = {
        ".f4e": ["3210", "4321", "5432", "6543"],
        ".b4e": ["5670", "6701", "7012", "0123"],
        ".rc8": ["0000", "1111", "2222", "3333"],
        ".ecl": ["3210", "3211", "3222", "3333"],
        ".ecr": ["0000", "1110", "2210", "3210"],
        ".rc16": ["1010", "3232", "1010", "3232"],
    }
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 2**32, (2, 64), dtype=np.uint64).astype(np.uint32)
    sel = rng.integers(0, 4 if mode else 2**16, 64).astype(np.uint32)
    (got,) = lanewise(f"prmt.b32{mode} out0, in0, in1, in2;", a, b, sel, out=np.uint32)
    for x, y, s, out in zip(a, b, sel, got, strict=True):
        data = int(x).to_bytes(4, "little") + int(y).to_bytes(4, "little")
        nibbles = (
            [int(n) for n in reversed(rows[mode][int(s)])]
            if mode
            else [(int(s) >> 4 * k) & 15 for k in range(4)]
        )
        picked = [data[n & 7] if n < 8 else (255 if data[n & 7] & 0x80 else 0) for n in nibbles]
        assert int(out) == int.from_bytes(bytes(picked), "little")


def test_funnel_shift() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2**32, (2, 80), dtype=np.uint64).astype(np.uint32)
    n = np.arange(80, dtype=np.uint32)
    for side in "lr":
        for mode in ("clamp", "wrap"):
            (got,) = lanewise(f"shf.{side}.{mode}.b32 out0, in0, in1, in2;", a, b, n, out=np.uint32)
            for x, y, k, out in zip(a, b, n, got, strict=True):
                amount = int(k) & 31 if mode == "wrap" else min(int(k), 32)
                both = int(y) << 32 | int(x)
                want = both >> amount if side == "r" else (both << amount) >> 32
                assert int(out) == want & 0xFFFFFFFF


def test_relu_minimum() -> None:
    a, b = pairs(32)
    (got,) = lanewise("min.relu.s32 out0, in0, in1;", a, b, out=np.uint32)
    assert [int(x) for x in got] == [
        max(0, min(signed(int(x), 32), signed(int(y), 32))) for x, y in zip(a, b, strict=True)
    ]


def test_pack_and_unpack() -> None:
    a, b = pairs(32)
    body = (
        "mov.b64 %rd1, {in0, in1}; mov.b64 {%r20, %r21}, %rd1; mov.b32 {%h1, %h2}, %r20; "
        "mov.b32 out0, {%h2, %h1}; mov.b32 out1, %r21;"
    )
    swapped, same = lanewise(body, a, b, out=np.uint32, outputs=2)
    assert np.array_equal(swapped, a >> 16 | a << 16)
    assert np.array_equal(same, b)


@pytest.mark.parametrize(
    "statement",
    [
        "add.s33 %r1, %r2, %r3;",
        "add.sat.u32 %r1, %r2, %r3;",
        "frobnicate.b32 %r1;",
        "shl.b32 %r1, %r2;",
    ],
)
def test_what_is_not_understood_stops_with_its_line(statement: str) -> None:
    with pytest.raises((PtxError, ValueError), match=r"line|operand|values"):
        run_ptx(statement)
