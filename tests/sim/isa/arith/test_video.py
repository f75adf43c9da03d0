"""Instructions on parts of registers against the semantics of the ISA, part by part."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from testing.harness import lanewise
from tests.sim.isa.memory.programs import fault_of

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "min": min, "max": max,
    "absdiff": lambda a, b: abs(a - b),
    "avrg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
}  # fmt: skip
WORDS = np.random.default_rng(3).integers(0, 2**32, (2, 64), np.uint32)
THIRD = "xor.b32 %r2, in0, in1;"


def parts(word: int, bits: int, kind: str) -> list[int]:
    found = [int(word) >> at & (1 << bits) - 1 for at in range(0, 32, bits)]
    return [x - (1 << bits) if kind == "s32" and x >> bits - 1 else x for x in found]


def expected(
    do: Callable[[int, int], int], bits: int, kinds: list[str], form: str, words: tuple[int, int]
) -> int:
    a, b = words
    c = a ^ b
    pairs = zip(parts(a, bits, kinds[1]), parts(b, bits, kinds[2]), strict=True)
    out = [int(do(x, y)) for x, y in pairs]
    if form == ".add":
        return (int(c) + sum(out)) % 2**32
    if form == ".sat":
        half = 1 << bits - 1
        low, high = (-half, half - 1) if kinds[0] == "s32" else (0, 2 * half - 1)
        out = [min(max(x, low), high) for x in out]
    return sum((x & (1 << bits) - 1) << at for x, at in zip(out, range(0, 32, bits), strict=True))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("form", ["", ".sat", ".add"])
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_arithmetic(name: str, form: str, count: int) -> None:
    for kinds in (["u32"] * 3, ["s32"] * 3, ["u32", "s32", "u32"], ["s32", "u32", "s32"]):
        text = f"{THIRD} v{name}{count}.{'.'.join(kinds)}{form} %r10, %r0, %r1, %r2;"
        (got,) = lanewise(text, *WORDS, out=np.uint32)
        want = [expected(OPERATIONS[name], 32 // count, kinds, form, w) for w in WORDS.T]
        assert got.tolist() == want


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(name: str, count: int) -> None:
    words = WORDS & 0x01010101
    for form in ("", ".add"):
        text = f"{THIRD} vset{count}.u32.u32.{name}{form} %r10, %r0, %r1, %r2;"
        (got,) = lanewise(text, *words, out=np.uint32)
        do = getattr(operator, name)
        want = [expected(do, 32 // count, ["u32"] * 3, form, w) for w in words.T]
        assert got.tolist() == want


def test_a_sum_does_not_saturate() -> None:
    assert "sat" in fault_of("vadd4.u32.u32.u32.sat.add %r0, %r0, %r0, %r0;")
