"""wmma: what is loaded, multiplied and stored is the product, whatever lies in which register."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import SimulationFault, UnsupportedExecuted
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned
from tests.sim.isa.warp.test_matrix import random_codes, values

SHAPES = {"m16n16k16": (16, 16, 16), "m8n32k16": (8, 32, 16), "m32n8k16": (32, 8, 16),
          "m16n16k8": (16, 16, 8), "m8n8k4": (8, 8, 4)}  # fmt: skip
STORED = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "s8": np.uint8, "u8": np.uint8,
          "f64": np.uint64, "f32": np.float32, "s32": np.int32}  # fmt: skip
COUNTS = {"f16": 8, "f32": 8, "s32": 8, "f64": 2}
"""Registers of C and D; f16 has half of that."""
SMALL = ("m16n16k16", "m8n32k16", "m32n8k16")
TYPES = (("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("s8", "s32"), ("u8", "s32"))
FORMS = [
    *((shape, kind, d) for shape in SMALL for kind, d in TYPES),
    ("m16n16k8", "tf32", "f32"), ("m8n8k4", "f64", "f64"),
]  # fmt: skip


def placed(matrix: np.ndarray, layout: str, stride: int, kind: str) -> np.ndarray:
    """A matrix in memory, its lines `stride` elements apart."""
    lines = matrix if layout == "row" else matrix.T
    out = aligned(lines.shape[0] * stride, STORED[kind]).reshape(lines.shape[0], stride)
    out[:, : lines.shape[1]] = lines.view(STORED[kind]) if kind in ("f32", "s32") else lines
    return out


def registers(first: int, count: int, kind: str) -> str:
    name = "%fd" if kind == "f64" else "%r"
    return "{" + ", ".join(f"{name}{first + k}" for k in range(count)) + "}"


def program(shape: str, kind: str, d: str, layouts: str, space: str = "") -> str:
    """Load A, B, C, multiply, store D; %n0 ... %n2 are strides."""
    m, n, k = SHAPES[shape]
    a, b, c = ("row" if x == "r" else "col" for x in layouts)
    size = {"bf16": 2, "s8": 1, "u8": 1, "tf32": 4, "f64": 4}.get(kind, 2)
    counts = [8, 8] if kind == "f16" else [lines * k * size // 128 for lines in (m, n)]
    results = COUNTS[d] // (2 if d == "f16" else 1)
    va, vb = registers(0, counts[0], kind), registers(10, counts[1], kind)
    vc = registers(20 if kind != "f64" else 12, results, d)
    vd = registers(30 if kind != "f64" else 14, results, d)
    of_ab = f"{d}.{d}" if kind == "f16" else f"{d}.{kind}.{kind}.{d}"
    of_ab += ".rn" * (kind == "f64")  # as nvcc writes it
    return f"""
    wmma.load.a.sync.aligned.{a}.{shape}{space}.{kind} {va}, [%p0], %n0;
    wmma.load.b.sync.aligned.{b}.{shape}{space}.{kind} {vb}, [%p1], %n1;
    wmma.load.c.sync.aligned.{c}.{shape}{space}.{d} {vc}, [%p2], %n2;
    wmma.mma.sync.aligned.{a}.{b}.{shape}.{of_ab} {vd}, {va}, {vb}, {vc};
    wmma.store.d.sync.aligned.{c}.{shape}{space}.{d} [%p3], {vd}, %n2;
    """


@pytest.mark.parametrize("layouts", ["rcr", "ccr", "rrc", "crc"])
@pytest.mark.parametrize(("shape", "kind", "d"), FORMS)
def test_the_product_is_right(shape: str, kind: str, d: str, layouts: str) -> None:
    m, n, k = SHAPES[shape]
    a, b = random_codes(kind, (m, k), 1), random_codes(kind, (k, n), 2)
    rng = np.random.default_rng(3)
    if d == "s32":
        c = rng.integers(-(2**20), 2**20, (m, n)).astype(np.int32)
    else:
        c = random_codes(d, (m, n), 4) if d != "f32" else rng.integers(-9, 9, (m, n)).astype("f4")
    sides = zip(((m, k), (k, n), (m, n)), layouts, strict=True)
    strides = [sizes[layout == "r"] + 16 for sizes, layout in sides]
    arrays = [
        placed(x, "row" if layout == "r" else "col", stride, of)
        for x, layout, stride, of in zip((a, b, c), layouts, strides, (kind, kind, d), strict=True)
    ]
    out = placed(np.zeros_like(c), "row" if layouts[2] == "r" else "col", strides[2], d)
    text = program(shape, kind, d, layouts, ".global" if layouts == "rcr" else "")
    report = run_ptx(text, *arrays, out, *strides, checks=Check.ALL)
    assert report.verdict == "clean"
    got = out[:, : n if layouts[2] == "r" else m]
    got = got if layouts[2] == "r" else got.T
    start = c if d in ("f32", "s32") else values(d, c)
    want = values(kind, a) @ values(kind, b) + start
    found = got if d in ("f32", "s32") else values(d, got.astype(np.uint64))
    np.testing.assert_array_equal(found, want)


def test_the_stride_may_be_left_out_and_memory_be_shared() -> None:
    source, out = aligned(256, np.float32), aligned(256, np.float32)
    source[:] = np.arange(256)
    body = (
        "mov.u32 %r50, dyn; mov.u32 %r51, %tid.x; shl.b32 %r52, %r51, 5; add.u32 %r53, %r50, %r52;"
        "mad.wide.u32 %rd1, %r51, 32, %p0;"
        "ld.global.v4.b32 {%r54, %r55, %r56, %r57}, [%rd1];"
        "st.shared.v4.b32 [%r53], {%r54, %r55, %r56, %r57};"
        "ld.global.v4.b32 {%r54, %r55, %r56, %r57}, [%rd1+16];"
        "st.shared.v4.b32 [%r53+16], {%r54, %r55, %r56, %r57}; bar.warp.sync -1;"
        f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {registers(0, 8, 'f32')}, [%r50];"
        f"wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%p1], {registers(0, 8, 'f32')};"
    )
    report = run_ptx(body, source, out, shared=SMEM, smem=1024, checks=Check.RACES)
    assert report.verdict == "clean"
    assert (out.reshape(16, 16) == source.reshape(16, 16).T).all()


def test_spare_registers_hold_elements_too() -> None:
    """A program may change all elements of a fragment."""
    source, out = aligned(256, np.uint16), aligned(32 * 8, np.uint32)
    source[:] = np.arange(1, 257)
    body = (
        f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {registers(0, 8, 'f16')}, [%p0];"
        "mov.u32 %r50, %tid.x; mad.wide.u32 %rd1, %r50, 32, %p1;"
        + "".join(f"st.global.u32 [%rd1+{4 * k}], %r{k};" for k in range(8))
    )
    run_ptx(body, source, out)
    first, spare = (part.ravel().view(np.uint16) for part in (
        out.reshape(32, 8)[:, :4].copy(), out.reshape(32, 8)[:, 4:].copy()))  # fmt: skip
    assert sorted(first.tolist()) == sorted(spare.tolist()) == list(range(1, 257))


def test_part_of_a_warp_is_refused() -> None:
    load = f"wmma.load.c.sync.aligned.row.m16n16k16.f32 {registers(0, 8, 'f32')}, [%p0];"
    body = "mov.u32 %r50, %tid.x; setp.lt.u32 %q1, %r50, 16; @%q1 " + load
    with pytest.raises(SimulationFault, match="partial-warp"):
        run_ptx(body, aligned(256, np.float32))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m16n16k16", "m16n16k8"),
        ("load.a", "load.d"),
        ("{%r0, ", "{"),
        (".f32.f32 ", ".f32.f16 "),
        ("mma.sync.aligned.row.col.m16n16k16", "mma.xor.sync.aligned.row.col.m8n8k128"),
        ("m16n16k16.f32.f32", "m16n16k16.satfinite.f32.f32"),
    ],
)  # fmt: skip
def test_other_forms_stop(old: str, new: str) -> None:
    text = program("m16n16k16", "f16", "f32", "rcr")
    assert old in text
    arrays = [aligned(512, np.uint16), aligned(512, np.uint16), aligned(512, np.float32)]
    with pytest.raises(UnsupportedExecuted, match="wmma"):
        run_ptx(text.replace(old, new), *arrays, arrays[2].copy(), 16, 16, 16)
