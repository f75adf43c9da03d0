"""The published bit-level accumulation model, for single elements, in exact rational arithmetic.

Products are exact; products and accumulator are aligned to the largest exponent and cut to a fixed
number of fraction bits; the sum is rounded toward zero to f32 or to nearest even to f16 (MMA-Sim).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tests.sim.isa.tcgen05.mma_reference import Case, from_cells, smem_operand

LEAST = {"f16": -14, "e4m3": -6, "e5m2": -14, "e2m3": 0, "e3m2": -2, "e2m1": 0}
"""Exponent of the smallest normal number; -126 for the types with an 8-bit exponent."""


def split(value: float, least: int) -> tuple[Fraction, int]:
    """value = significand * 2^exponent with 1 <= |significand| < 2 above the least exponent."""
    if value == 0:
        return Fraction(0), -126
    exponent = max(math.frexp(value)[1] - 1, least)
    return Fraction(value) / Fraction(2) ** exponent, exponent


def fused_sum(terms: list[tuple[Fraction, int]], bits: int) -> Fraction:
    """Sum of the terms after alignment and truncation toward zero."""
    top = max(exponent for _, exponent in terms)
    units = [int(sig * Fraction(2) ** (bits + exponent - top)) for sig, exponent in terms]
    return sum(units) * Fraction(2) ** (top - bits)


def to_f32_toward_zero(value: Fraction) -> int:
    if value == 0:
        return 0
    exponent = max(math.frexp(float(abs(value)))[1] - 1, -126)
    fraction = int(abs(value) / Fraction(2) ** (exponent - 23))
    result = np.float32(math.ldexp(fraction, exponent - 23))
    return int(np.float32(-result if value < 0 else result).view(np.uint32))


def expected_element(case: Case, row: int, column: int, cell: int) -> int:
    """D word of (row of the whole matrix, column); `cell` is the accumulator word before."""
    q = case.desc
    rows = q.m // q.group
    cta, local = divmod(row, rows)
    a = case.a_of(cta)[int(q.group == 2 and q.m == 128 and column >= q.n // 2)][local]
    half, mine = divmod(column, q.n // q.group)
    b = smem_operand(case.windows[half], case.b, q, "b")[mine]
    a, b = -a if q.negate_a else a, -b if q.negate_b else b
    c = 0.0
    if case.accumulate:
        c = float(from_cells(np.array([cell], np.uint32), q.d)[0]) * 2.0**-case.scale_d
    terms = [split(c, -14 if q.d == "f16" else -126)]
    least_a, least_b = LEAST.get(q.a, -126), LEAST.get(q.b, -126)
    if not case.sf_block:
        for x, y in zip(a, b, strict=True):
            (sx, ex), (sy, ey) = split(x, least_a), split(y, least_b)
            terms.append((sx * sy, ex + ey))
        total = fused_sum(terms, 25)
    else:
        sa = case.scales(cta, case.sfa_column, rows, q.sfa_id)[local]
        sb = case.scales(cta, case.sfb_column, q.n, q.sfb_id)[column]
        if q.kind == "mxf8f6f4":
            scale = split(sa[0], -127)[1] + split(sb[0], -127)[1]
            for x, y in zip(a, b, strict=True):
                (sx, ex), (sy, ey) = split(x, least_a), split(y, least_b)
                terms.append((sx * sy, ex + ey + scale))
            total = fused_sum(terms, 25)
        else:
            least = -127 if q.scale_type == "ue8m0" else -6
            for k in range(0, q.k, 16):
                (sx, ex), (sy, ey) = split(sa[k], least), split(sb[k], least)
                terms.append((Fraction(float(a[k : k + 16] @ b[k : k + 16])) * sx * sy, ex + ey))
            total = fused_sum(terms, 35)
    if q.d == "f16":
        return int(np.float16(float(total)).view(np.uint16))
    return to_f32_toward_zero(total)
