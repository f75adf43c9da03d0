"""tcgen05.mma.sp against numpy: metadata where CUTLASS's fragments of E have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.hardware.micro.wgmma.programs import indices
from testing.layouts.instr_desc import NARROW, InstrDescriptor, container_bits
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.tcgen05.mma_cases import (
    A_COLUMN,
    D_COLUMN,
    IMAGE_BYTES,
    SFA_COLUMN,
    SFB_COLUMN,
    accumulators,
    instruction,
    program,
    run_case,
    safe_codes,
    scale_words,
)
from tests.sim.isa.tcgen05.mma_reference import Case, decode, from_cells, read_bits, to_cells
from tests.sim.isa.tcgen05.programs import IMAGE_START

META_COLUMN = 304


def sparse_case(
    kind: Any, element: Any, d: Any = "f32", group: int = 1, *, a_tmem: bool = False,
    swizzle: Swizzle = Swizzle.B128, mn_major_b: bool = False, n: int = 64, b_type: Any = None,
    block: int = 0, scale: Any = "ue8m0",
) -> Case:  # fmt: skip
    """An accumulating case with random metadata in two columns."""
    desc = InstrDescriptor(
        kind=kind, m=128 * group, n=n, a=element, b=b_type or element, d=d, group=group,
        mn_major_b=mn_major_b, scale_type=scale,
    )  # fmt: skip
    rng = np.random.default_rng(7)
    windows = [
        np.concatenate([np.zeros(IMAGE_START, np.uint8), safe_codes(rng, desc, (IMAGE_BYTES,))])
        for _ in range(group)
    ]
    tmem = safe_codes(rng, desc, (group, 128, 2048)).view(np.uint32).copy()
    tmem[:, :, D_COLUMN : D_COLUMN + 256] = accumulators(rng, desc, (group, 128, 256))
    words = indices("tf32" if kind == "tf32" else "f16", group * 256, 9)
    tmem[:, :, META_COLUMN : META_COLUMN + 2] = words.reshape(group, 128, 2)
    if block:
        scale_words(rng, tmem, scale)
    a = SmemDescriptor(IMAGE_START, 16, 1024, Swizzle.B128)
    lbo = 8192 if mn_major_b else 128
    sbo = {Swizzle.NONE: 512, Swizzle.B64: 512}.get(swizzle, 1024)
    b = SmemDescriptor(IMAGE_START + 16384, lbo, sbo, swizzle)
    return Case(
        desc, None if a_tmem else a, b, windows, tmem, D_COLUMN, 0, A_COLUMN, True, 0, [],
        SFA_COLUMN, SFB_COLUMN, block,
    )  # fmt: skip


def body(case: Case, selector: int, column: int = META_COLUMN) -> str:
    """The dense program with .sp, its metadata, and the bits of the descriptor."""
    dense = instruction(case)
    sparse = dense.replace("tcgen05.mma.", "tcgen05.mma.sp.")
    sparse = sparse.replace("%rd6, %r42", f"%rd6, [%r30 + {column}], %r42")
    text = program(case)
    assert dense in text
    word = case.desc.encode()
    return text.replace(dense, sparse).replace(f"%r42, {word};", f"%r42, {word | 4 | selector};")


def chunks(case: Case, cta: int, row: int, selector: int) -> list[int]:
    """Four bits of metadata for each chunk of a row."""
    words = case.tmem[cta][:, META_COLUMN : META_COLUMN + 2]
    if container_bits(case.desc.kind, case.desc.a) <= 8:
        raw = int(words[row, 0]) | int(words[row, 1]) << 32
        return [raw >> 4 * j & 15 for j in range(16)]
    lane, upper = row // 16 * 16 + row % 8, row // 8 % 2
    halves = [int(words[lane + 8 * h, selector]) >> 16 * upper & 0xFFFF for h in (0, 1)]
    return [half >> 4 * j & 15 for half in halves for j in range(4)]


def expected(case: Case, selector: int) -> npt.NDArray[np.uint32]:
    """Tensor Memory afterwards."""
    q, out = case.desc, case.tmem.copy()
    bits = container_bits(q.kind, q.b)
    at = case.b.bit_addresses(
        mn_major=q.mn_major_b, element_bits=bits, rows=q.n // q.group, k=2 * q.k
    )
    width = bits
    if q.b in NARROW and bits == 8:
        width = 4 if q.b == "e2m1" else 6
        at = at // 128 * 128 + at % 128 // 8 * width
    rows = np.concatenate([decode(read_bits(w, at, width), q.b) for w in case.windows])
    for cta in range(q.group):
        a, kept, b = np.zeros((128, 2 * q.k)), case.a_of(cta)[0], rows
        if case.sf_block:
            kept = kept * case.scales(cta, case.sfa_column, 128, 0)
            b = b * np.repeat(case.scales(cta, case.sfb_column, q.n, 0), 2, axis=1)
        for row in range(128):
            places: list[int] = []
            for j, nibble in enumerate(chunks(case, cta, row, selector)):
                inside = [int(nibble == 0xE)] if bits == 32 else [nibble & 3, nibble >> 2]
                if bits == 4:
                    inside = [2 * i + e for i in inside for e in (0, 1)]
                places += [(2 if bits == 32 else 8 if bits == 4 else 4) * j + i for i in inside]
            np.add.at(a[row], places, kept[row])
        columns = slice(D_COLUMN, D_COLUMN + q.n)
        total = a @ b.T + from_cells(case.tmem[cta][:, columns], q.d)
        out[cta][:, columns] = to_cells(total, q.d, q.saturate)
    return out


@pytest.mark.parametrize(
    ("case", "selector"),
    [
        (sparse_case("f16", "bf16"), 0), (sparse_case("f16", "bf16"), 1),
        (sparse_case("f16", "f16", "f16", a_tmem=True), 1),
        (sparse_case("f16", "f16", group=2, n=128), 1),
        (sparse_case("tf32", "tf32"), 0), (sparse_case("tf32", "tf32", swizzle=Swizzle.NONE), 1),
        (sparse_case("f8f6f4", "e4m3"), 0),
        (sparse_case("f8f6f4", "e5m2", swizzle=Swizzle.B64), 0),
        (sparse_case("i8", "s8", "s32"), 0), (sparse_case("i8", "u8", "s32", 2, n=128), 0),
        (sparse_case("f16", "bf16", mn_major_b=True), 0),
        (sparse_case("f8f6f4", "e4m3", b_type="e2m1"), 0),
        (sparse_case("f8f6f4", "e3m2", b_type="e2m3"), 0),
        (sparse_case("mxf8f6f4", "e4m3", b_type="e2m1", block=32), 0),
        (sparse_case("mxf8f6f4", "e5m2", a_tmem=True, block=32, group=2, n=128), 0),
        (sparse_case("mxf4", "e2m1", block=32), 0),
        (sparse_case("mxf4nvf4", "e2m1", block=16, scale="ue4m3"), 0),
        (sparse_case("mxf4nvf4", "e2m1", block=16, scale="ue4m3", group=2, n=256), 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("exact", [False, True])
def test_products(case: Case, selector: int, exact: bool) -> None:
    _, after = run_case(case, body=body(case, selector), poison=False, exact_mma=exact)
    want = expected(case, selector)
    if not exact:
        np.testing.assert_array_equal(after, want)
        return
    got, near = (from_cells(x[..., D_COLUMN : D_COLUMN + 64], case.desc.d) for x in (after, want))
    np.testing.assert_allclose(got, near, rtol=2e-3, atol=2e-3 * max(1, case.sf_block))


def stopped(case: Case, text: str) -> str:
    with pytest.raises((SimulationFault, UnsupportedExecuted)) as caught:
        run_case(case, body=text)
    return str(caught.value)


def test_what_is_not_meant_or_not_known_stops() -> None:
    case = sparse_case("f16", "bf16")
    right, word = body(case, 1), case.desc.encode()
    for text, reason in (
        (right.replace(f"{word | 5};", f"{word};"), "sparse-mismatch: the sparse bit of the"),
        (body(case, 2), "sparsity selector 2: only even columns"),
        (body(case, 1, META_COLUMN + 1), "column 305 with sparsity selector 1: only even columns"),
        (right.replace(".sp.", ".ws.sp."), "tcgen05.mma.ws.sp are not modelled"),
        (right.replace(".sp.", ".sp.ashift."), "tcgen05.mma.ashift"),
    ):
        assert text != right
        assert reason in stopped(case, text)
    bytes_ = sparse_case("i8", "s8", "s32")
    assert "selectors below 1" in stopped(bytes_, body(bytes_, 1))
    narrow = sparse_case("f16", "bf16", swizzle=Swizzle.B32)
    assert "32-byte swizzle" in stopped(narrow, body(narrow, 0))
    half = replace(case, desc=replace(case.desc, m=64))
    assert ".sp with M = 64" in stopped(half, body(half, 0))


def test_metadata_without_meaning() -> None:
    """One place twice, as CUTLASS writes a chunk with one element, is taken so; a place that there
    is not stops the run."""
    case = sparse_case("f16", "bf16")
    case.tmem[0, 16 + 8 + 3, META_COLUMN] &= 0xFF0FFFFF
    report, after = run_case(case, body=body(case, 0), poison=False)
    assert [finding.code for finding in report.findings] == ["sparse-metadata-twice"]
    assert "row 27 of A: the metadata 0x0 of a chunk" in str(report.findings[0])
    np.testing.assert_array_equal(after, expected(case, 0))
    case = sparse_case("tf32", "tf32")
    case.tmem[0, 16 + 8 + 3, META_COLUMN] &= 0xFF0FFFFF
    reason = "sparse-metadata: row 27 of A: the metadata 0x0 of a chunk"
    assert reason in stopped(case, body(case, 0))


def test_checks_see_metadata() -> None:
    """A store to their columns that nothing orders before the MMA is a race."""
    case = sparse_case("f16", "bf16")
    text = body(case, 0)
    report, _ = run_case(case, body=text, checks="all")
    assert report.verdict == "clean"
    store = f"add.u32 %r60, %r30, {META_COLUMN}; mov.b32 %r61, 0x44444444;"
    store += "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r60], {%r61};"
    report, _ = run_case(case, body=text.replace("@!%q5 bra ISSUED;", store + "@!%q5 bra ISSUED;"),
                         checks="all")  # fmt: skip
    assert "race-tmem" in {finding.code for finding in report.findings}
