"""tcgen05.mma.ws: M = 32, 64 and 128, whose accumulators fill all lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.layouts.instr_desc import InstrDescriptor, Kind, container_bits
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.tcgen05.mma_cases import accumulators, program, run_case, safe_codes
from tests.sim.isa.tcgen05.mma_reference import (
    Case,
    decode,
    from_cells,
    read_bits,
    smem_operand,
    to_cells,
)
from tests.sim.isa.tcgen05.programs import IMAGE_START

TYPES: dict[Kind, tuple[str, str]] = {
    "f16": ("bf16", "f32"), "tf32": ("tf32", "f32"), "f8f6f4": ("e4m3", "f16"), "i8": ("s8", "s32"),
}  # fmt: skip


def made(kind: Kind, n: int, accumulate: bool = False) -> Case:
    """M = 128, both operands K-major with the 128B swizzle."""
    rng = np.random.default_rng(n)
    element, d = TYPES[kind]
    desc = InstrDescriptor(kind=kind, m=128, n=n, a=element, b=element, d=d)
    window = np.zeros(IMAGE_START + 65536, np.uint8)
    window[IMAGE_START:] = safe_codes(rng, desc, (65536,))
    tmem = accumulators(rng, desc, (1, 128, 512))
    a = SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128)
    b = SmemDescriptor(IMAGE_START + 16384, 16, 1024, Swizzle.B128)
    return replace(Case(desc, a, b, [window], tmem), d_column=32, accumulate=accumulate)


def text(case: Case, m: int, tail: str = "", collector: str = "") -> str:
    """The program with .ws and M rows."""
    word = case.desc.encode()
    rows = word ^ (128 >> 4 ^ m >> 4) << 24
    body = program(case).replace(f"mov.b32 %r42, {word};", f"mov.b32 %r42, {rows};")
    kind = f".kind::{case.desc.kind}"
    assert "%r42, %q6;" in body
    return (
        body.replace("tcgen05.mma.cta_group", "tcgen05.mma.ws.cta_group")
        .replace(kind, kind + collector)
        .replace("%r42, %q6;", f"%r42, %q6{tail};")
    )


def expected(case: Case, m: int, zeros: tuple[int, ...] = ()) -> np.ndarray:
    """Columns are cut in 128 / M pieces, which lie below one another (layouts D, E and G)."""
    q, out = case.desc, case.tmem.copy()
    assert case.a is not None
    a = smem_operand(case.windows[0], case.a, q, "a")[:m]
    total = a @ smem_operand(case.windows[0], case.b, q, "b").T
    total[:, list(zeros)] = 0
    width = q.n * m // 128
    for row in range(m):
        for column in range(q.n):
            place = (0, m * (column // width) + row, case.d_column + column % width)
            before = from_cells(case.tmem[place].reshape(1), q.d)[0] if case.accumulate else 0.0
            out[place] = to_cells(np.array([total[row, column] + before]), q.d, q.saturate)[0]
    return out


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize(("kind", "n"), [("f16", 64), ("f16", 256), ("tf32", 128), ("f8f6f4", 64),
                                         ("i8", 128)])  # fmt: skip
@pytest.mark.parametrize("accumulate", [False, True])
def test_rows_and_columns_of_d(m: int, kind: Kind, n: int, accumulate: bool) -> None:
    case = made(kind, n, accumulate)
    checks = Check.RACES | Check.PROTOCOL
    report, after = run_case(case, body=text(case, m), poison=False, checks=checks)
    assert report.verdict == "clean"
    np.testing.assert_array_equal(after, expected(case, m))


def parts_of_a(case: Case, m: int, column: int) -> list[np.ndarray]:
    """Of each part of N the rows of A in its own lanes, [M, K]."""
    q = case.desc
    bits = container_bits(q.kind, q.a)
    words = np.ascontiguousarray(case.tmem[0][:, column : column + 8]).view(np.uint8)
    rows = [decode(read_bits(row, np.arange(q.k) * bits, bits), q.a) for row in words]
    return [np.stack(rows[lane : lane + m]) for lane in range(0, 128, m)]


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize(("kind", "n"), [("f16", 64), ("f16", 256), ("tf32", 128), ("i8", 128)])
def test_each_part_multiplies_the_a_of_its_lanes(m: int, kind: Kind, n: int) -> None:
    """As FlashMLA, cudnn-frontend and Modular's kernels rely on: their parts hold different A."""
    case = made(kind, n)
    rng = np.random.default_rng(m)
    case.tmem[0, :, 8:16] = safe_codes(rng, case.desc, (128, 32)).view(np.uint32)
    b = smem_operand(case.windows[0], case.b, case.desc, "b")
    after = case.tmem.copy()
    width = n * m // 128
    for part, a in enumerate(parts_of_a(case, m, 8)):
        total = a @ b[part * width : (part + 1) * width].T
        place = (0, slice(m * part, m * part + m), slice(case.d_column, case.d_column + width))
        after[place] = to_cells(total, case.desc.d, case.desc.saturate)
    body = text(case, m).replace("%rd5, %rd6", "[%r40 + 8], %rd6")
    (once,) = (line for line in body.split("\n") if line.startswith("tcgen05.mma"))
    report, found = run_case(case, body=body.replace(once, f"{once}\n{once}"), poison=False)
    np.testing.assert_array_equal(found, after)
    said = [f"{finding.code}: {finding.message}" for finding in report.findings]
    if m == 128:
        assert not said
    else:
        (told,) = said
        assert told.startswith(f"ws-a-lanes: A in Tensor Memory of .ws with M = {m}")
        assert f"each of the {128 // m} parts" in told


def test_a_mask_of_zero_and_collector_hints_change_nothing() -> None:
    case = made("f16", 64)
    for tail, collector in ((", 0", ".collector::b2::fill"), (", %rd7", "")):
        body = "mov.b64 %rd7, 0;" + text(case, 64, tail, collector)
        _, after = run_case(case, body=body, poison=False, mode="late")
        np.testing.assert_array_equal(after, expected(case, 64))


MASK = 1 << 39 | 2 << 40 | 3 << 48


@pytest.mark.parametrize(
    ("m", "mask", "parts"),
    [
        (128, 2 << 40 | 3 << 48, [""]),
        (128, MASK, ["0000111"]),
        (64, MASK | 1 << 32, ["1110000", "0000111"]),
        (32, MASK | 3 << 32 | 1 << 8 | 2 << 16 | 1 << 24,
         ["1110000", "1100001", "0011100", "0001110"]),
    ],
)  # fmt: skip
def test_zero_columns(m: int, mask: int, parts: list[str]) -> None:
    """The ISA's four examples, the last without its shift; each part of N repeats its columns."""
    case = made("f16", 64, accumulate=True)
    width = 64 * m // 128
    zeros = tuple(
        n for n in range(64) if "1" in (p := parts[n // width]) and p[n % width % len(p)] == "1"
    )
    body = f"mov.b64 %rd7, {mask};" + text(case, m, ", %rd7")
    _, after = run_case(case, body=body, poison=False)
    np.testing.assert_array_equal(after, expected(case, m, zeros))


def test_rules() -> None:
    case = made("f16", 64)
    for body, words in (
        (text(case, 64, ", 137438953472"), "bits 36-38 and 62-63 must be 0"),
        (text(case, 64, ", 72057594037927936"), "a shift of columns"),
        (text(case, 64, f", {MASK | 4 << 8}"), "part 1 begins after its first span"),
        (text(made("f16", 72), 128), "N = 64, 128 or 256"),
        (text(case, 16), "M = 32, 64 or 128"),
        (text(case, 64).replace("[%r40 + 32]", "[%r40 + 1048608]"), "allows lane 0"),
        (text(case, 64).replace("mma.ws", "mma"), ""),
    ):
        if words:
            with pytest.raises(SimulationFault, match=words):
                run_case(case, body=body)
        else:
            run_case(case, body=body)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cta_group::1.kind", "cta_group::2.kind", "exists with cta_group::1"),
        ("mma.ws", "mma.ws.sp", "tcgen05.mma.ashift and tcgen05.mma.ws.sp are not modelled"),
        (".kind::f16", ".kind::f16.collector::a::fill", "modifier .collector::a::fill"),
        ("%q6;", "%q6, 0, 0;", "unexpected operands"),
    ],
)
def test_forms_that_do_not_exist(old: str, new: str, words: str) -> None:
    case = made("f16", 64)
    with pytest.raises(UnsupportedExecuted, match=words):
        run_case(case, body=text(case, 64).replace(old, new, 1))
