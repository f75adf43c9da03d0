"""Chains with carry against Python's integers; products of 24 bits, dot products, bit fields."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.ptx.errors import PtxError
from testing.harness import lanewise, run_ptx
from tests.sim.isa.arith.test_integer import pairs, read

WORDS = 2


def numbers(bits: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The words of two numbers, low words first, each `WORDS` arrays; many words are at an edge."""
    a, b = pairs(bits)
    rng = np.random.default_rng(7)
    return ([a, *(rng.permutation(a) for _ in range(WORDS - 1))],
            [b, *(rng.permutation(b) for _ in range(WORDS - 1))])  # fmt: skip


def whole(words: list[np.ndarray], lane: int) -> int:
    bits = words[0].itemsize * 8
    return sum(int(word[lane]) << bits * k for k, word in enumerate(words))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ["add", "sub"])
def test_sums_of_several_words(op: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = numbers(bits)
    body = f"""
    {op}.cc.{kind} out0, in0, in2; {op}c.cc.{kind} out1, in1, in3; {op}c.{kind} out2, 0, 0;
    """
    got = lanewise(body, *a, *b, out=a[0].dtype, outputs=WORDS + 1)
    for lane in range(len(a[0])):
        x, y = whole(a, lane), whole(b, lane)
        want = (x + y if op == "add" else x - y) % 2 ** ((WORDS + 1) * bits)
        assert whole(got, lane) == want


@pytest.mark.parametrize("bits", [32, 64])
def test_the_product_of_the_isa_s_example(bits: int) -> None:
    """PTX ISA, "Extended-Precision Arithmetic Instructions: madc": two words times two words."""
    a, b = numbers(bits)
    body = """
    mul.lo.T out0, in0, in2; mul.hi.T out1, in0, in2;
    mad.lo.cc.T out1, in1, in2, out1; madc.hi.T out2, in1, in2, 0;
    mad.lo.cc.T out1, in0, in3, out1; madc.hi.cc.T out2, in0, in3, out2; addc.T out3, 0, 0;
    mad.lo.cc.T out2, in1, in3, out2; madc.hi.T out3, in1, in3, out3;
    """.replace(".T", f".u{bits}")
    got = lanewise(body, *a, *b, out=a[0].dtype, outputs=4)
    for lane in range(len(a[0])):
        assert whole(got, lane) == whole(a, lane) * whole(b, lane)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_the_carry_of_a_product_is_that_of_its_sum(part: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    e = a[::-1].copy()
    body = f"mad.{part}.cc.{kind} out0, in0, in1, in2; addc.{kind} out1, 0, 0;"
    got, carry = lanewise(body, a, b, e, out=a.dtype, outputs=2)
    for lane in range(len(a)):
        product = read(int(a[lane]), kind) * read(int(b[lane]), kind)
        half = (product if part == "lo" else product >> bits) % 2**bits
        total = half + int(e[lane])
        assert (int(got[lane]), int(carry[lane])) == (total % 2**bits, total >> bits)


def test_a_carry_that_nothing_wrote_is_found() -> None:
    good = "add.cc.u32 %r1, 1, 2; addc.u32 %r2, 1, 2;"
    assert run_ptx(good, checks=Check.ALL).verdict == "clean"
    report = run_ptx("addc.u32 %r2, 1, 2;", checks=Check.ALL)
    assert [finding.code for finding in report.findings] == ["uninitialised-register"]


@pytest.mark.parametrize("text", ["addc.sat.s32 %r1, 1, 2;", "add.cc.u16 %h1, %h2, %h3;",
                                  "madc.wide.u32 %rd1, 1, 2, 3;", "subc.u32 %r1, 1;"])  # fmt: skip
def test_illegal_forms(text: str) -> None:
    with pytest.raises(PtxError):
        run_ptx(text)


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_products_of_24_bits(part: str, kind: str) -> None:
    a, b = pairs(32)
    e = a[::-1].copy()
    body = f"mul24.{part}.{kind} out0, in0, in1; mad24.{part}.{kind} out1, in0, in1, in2;"
    got, added = lanewise(body, a, b, e, out=np.uint32, outputs=2)
    for lane in range(len(a)):
        x, y = (int(v[lane]) % 2**24 for v in (a, b))
        if kind == "s32":
            x, y = (v - 2**24 * (v >> 23) for v in (x, y))
        want = (x * y >> (16 if part == "hi" else 0)) % 2**32
        assert int(got[lane]) == want
        assert int(added[lane]) == (want + int(e[lane])) % 2**32


@pytest.mark.parametrize("types", ["u32.u32", "u32.s32", "s32.u32", "s32.s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_dot_products_of_halves_and_bytes(part: str, types: str) -> None:
    a, b = pairs(32)
    e = b[::-1].copy()
    (got,) = lanewise(f"dp2a.{part}.{types} out0, in0, in1, in2;", a, b, e, out=np.uint32)
    left, right = ("<i2" if "s" in t else "<u2" for t in types.split("."))
    halves = a.view(left).reshape(-1, 2).astype(np.int64)
    octets = b.view(right.replace("2", "1")).reshape(-1, 4).astype(np.int64)
    chosen = octets[:, :2] if part == "lo" else octets[:, 2:]
    np.testing.assert_array_equal(got, ((halves * chosen).sum(1) + e) % 2**32)


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension_of_a_field(mode: str, kind: str) -> None:
    a, _ = pairs(32)
    n = np.resize(np.array([0, 1, 4, 7, 16, 31, 32, 33, 45, 2**32 - 1], np.uint32), len(a))
    (got,) = lanewise(f"szext.{mode}.{kind} out0, in0, in1;", a, n, out=np.uint32)
    for lane, (x, width) in enumerate(zip(a.tolist(), n.tolist(), strict=True)):
        bits = 32 if mode == "clamp" and width >= 32 else width % 32
        field = x % 2**bits
        if kind == "s32" and bits and field >> (bits - 1):
            field -= 2**bits
        assert int(got[lane]) == field % 2**32


def test_the_nth_set_bit() -> None:
    """The ISA's examples, and a search bit by bit."""
    cases = [(0xAAAAAAAA, 3, 1), (0xAAAAAAAA, 3, -1), (0xAAAAAAAA, 2, 1), (0xAAAAAAAA, 2, -1)]
    rng = np.random.default_rng(3)
    cases += [(int(m), int(p), int(n)) for m, p, n in zip(
        rng.integers(0, 2**32, 60), rng.integers(0, 32, 60), rng.integers(-9, 10, 60), strict=True
    )]  # fmt: skip
    columns = zip(*cases, strict=True)
    mask, base, offset = (np.array(x, np.int64).astype(np.uint32) for x in columns)
    (got,) = lanewise("fns.b32 out0, in0, in1, in2;", mask, base, offset, out=np.uint32)
    assert got[:4].tolist() == [3, 3, 3, 1]
    for lane, (bits, first, n) in enumerate(cases):
        way = range(first, 32) if n > 0 else range(first, -1, -1) if n else [first]
        found = [at for at in way if bits >> at & 1]
        want = found[max(abs(n), 1) - 1] if len(found) >= max(abs(n), 1) else 2**32 - 1
        assert int(got[lane]) == want
