"""Tensor copies: boxes of every rank and swizzle, edges, mbarriers, multicast, stores,
reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.options import Check
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from tests.sim.isa.memory.boxes import element_addresses, element_offsets
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of, only, tensor, wait

DATA = 0x800
"""Window offset of the box; the mbarrier is at 0x400."""

MODES = ["fast", "random", "late"]
RNG = np.random.default_rng(11)


def load(
    tm: TensorMap,
    start: tuple[int, ...],
    into: str = "shared::cta",
    extra: str = "",
    mask: str = "",
) -> str:
    """One thread loads the box at `start`, everybody waits."""
    coords = "{" + ", ".join(str(x) for x in start) + "}"
    return (
        "mov.u32 %r1, dyn;"
        + only(
            0,
            f"mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; "
            f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {tm.box_bytes};"
            f"cp.async.bulk.tensor.{tm.rank}d.{into}.global.tile.mbarrier::complete_tx::bytes{extra}"
            f" [%r1+1024], [%m0, {coords}], [%r1]{mask};",
            "T",
        )
        + "bar.sync 0;"
        + wait("%r1", 0, "W")
    )


def dump(count: int) -> str:
    """Copy `count` bytes from the box to %p1 (a multiple of 512)."""
    return (
        "mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4; mov.u32 %r3, 0; "
        "D: add.u32 %r4, %r2, %r3; add.u32 %r5, %r1, %r4;"
        "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r5+1024]; cvt.u64.u32 %rd1, %r4; "
        "add.s64 %rd1, %rd1, %p1;"
        f"st.global.v4.b32 [%rd1], {{%r10, %r11, %r12, %r13}}; add.u32 %r3, %r3, 512; "
        f"setp.lt.u32 %q1, %r3, {count}; @%q1 bra D;"
    )


def loaded(tm: TensorMap, source: np.ndarray, start: tuple[int, ...], fill: int = 0) -> np.ndarray:
    """The box in shared memory by the Python statement of the layout, as bytes from DATA on."""
    flat = source.view(np.uint8).ravel()
    offsets = element_offsets(tm, DATA).ravel() - DATA
    out = np.full(footprint(tm), 0xFF, np.uint8)  # poison
    addresses = element_addresses(tm, start).ravel()
    pattern = np.frombuffer(fill.to_bytes(tm.element_bytes, "little"), np.uint8)
    for byte in range(tm.element_bytes):
        picked = flat[np.where(addresses < 0, 0, addresses - source.ctypes.data) + byte]
        out[offsets + byte] = np.where(addresses < 0, pattern[byte], picked)
    return out


def footprint(tm: TensorMap) -> int:
    """Bytes of shared memory from the first row to behind the last."""
    inner = tm.box[0] * tm.element_bytes
    return tm.box_bytes // inner * max(inner, tm.swizzle.span)


def run_load(
    source: np.ndarray, tm: TensorMap, start: tuple[int, ...], **options: Any
) -> np.ndarray:
    out = aligned((footprint(tm) + 511) // 512 * 512, np.uint8)
    run_ptx(
        load(tm, start) + dump(footprint(tm)),
        source,
        out,
        tm.encode(),
        shared=SMEM,
        smem=1024 + out.size,
        **options,
    )
    return out[: footprint(tm)]


def image(*shape: int, dtype: Any = np.uint16) -> np.ndarray:
    return aligned_copy(
        RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    ).view(dtype)[..., 0]


@pytest.mark.parametrize("swizzle", list(TmaSwizzle))
@pytest.mark.parametrize(
    ("element", "dtype"),
    [("UINT8", np.uint8), ("BFLOAT16", np.uint16), ("FLOAT32", np.uint32), ("INT64", np.uint64)],
)
def test_load_places_every_element(swizzle: TmaSwizzle, element: str, dtype: Any) -> None:
    inner = (swizzle.span or 128) // np.dtype(dtype).itemsize
    source = image(40, 2 * inner, dtype=dtype)
    tm = tensor(source, (inner, 32), element, swizzle=swizzle)
    assert (run_load(source, tm, (inner, 5)) == loaded(tm, source, (inner, 5))).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "box", "start"),
    [
        ((64,), (32,), (16,)),
        ((6, 64), (64, 4), (0, 1)),
        ((3, 6, 64), (64, 4, 2), (0, 2, 1)),
        ((2, 3, 6, 64), (64, 2, 2, 2), (0, 3, 1, 0)),
        ((2, 2, 3, 6, 64), (64, 3, 2, 1, 2), (0, 1, 0, 1, 0)),
    ],
)
def test_every_rank(
    shape: tuple[int, ...], box: tuple[int, ...], start: tuple[int, ...], mode: str
) -> None:
    source = image(*shape)
    tm = tensor(
        source, box, "FLOAT16", swizzle=TmaSwizzle.B128 if box[0] == 64 else TmaSwizzle.NONE
    )
    assert (run_load(source, tm, start, mode=mode) == loaded(tm, source, start)).all()


@pytest.mark.parametrize(
    "start", [(0, 30), (48, 0), (64, 0), (-8, -3), (0, -100), (40, 38), (1 << 30, 0)]
)
@pytest.mark.parametrize("nan_fill", [False, True])
def test_elements_outside_are_filled_and_counted(start: tuple[int, int], nan_fill: bool) -> None:
    source = image(40, 80)
    tm = tensor(source, (64, 16), "BFLOAT16", swizzle=TmaSwizzle.B128, nan_fill=nan_fill)
    assert (
        run_load(source, tm, start) == loaded(tm, source, start, 0x7FF7 if nan_fill else 0)
    ).all()


def test_element_strides_skip_rows() -> None:
    source = image(40, 64)
    tm = tensor(source, (64, 9), "BFLOAT16", swizzle=TmaSwizzle.B128, element_strides=(1, 2))
    assert tm.box_bytes == 5 * 128
    assert (run_load(source, tm, (0, 3)) == loaded(tm, source, (0, 3))).all()


@pytest.mark.parametrize(("swizzle", "inner"), [(1, 8), (2, 8), (2, 24), (3, 8), (3, 40)])
@pytest.mark.parametrize("start", [(0, 0), (-8, 36)])
def test_rows_narrower_than_the_span(swizzle: int, inner: int, start: tuple[int, int]) -> None:
    source = image(40, 80)
    tm = tensor(source, (inner, 8), "BFLOAT16", swizzle=TmaSwizzle(swizzle))
    got = run_load(source, tm, start, checks=Check.RACES)
    assert (got == loaded(tm, source, start)).all()


def test_tf32_maps_round_to_nearest_even() -> None:
    source = aligned(32, np.uint32).reshape(1, 32)
    source[0, :8] = [
        0x3F801FFF,
        0x3F801000,
        0x3F803000,
        0x000116C2,
        0x800116C2,
        0xFF800000,
        0x40490FDB,
        0xC02DF854,
    ]
    tm = tensor(source, (32, 1), "TFLOAT32")
    expected = [
        0x3F802000,
        0x3F800000,
        0x3F804000,
        0x00012000,
        0x80012000,
        0xFF800000,
        0x40490000,
        0xC02E0000,
    ]
    assert run_load(source, tm, (0, 0)).view(np.uint32)[:8].tolist() == expected
    plain = tensor(source, (32, 1), "FLOAT32_FTZ")
    assert (run_load(source, plain, (0, 0)).view(np.uint32) == source).all()


@pytest.mark.parametrize(
    ("start", "legal"),
    [((8, 0), True), ((-8, 0), True), ((4, 0), False), ((-1, 0), False), ((61, 0), False)],
)
def test_a_box_starts_at_a_multiple_of_16_bytes(start: tuple[int, int], legal: bool) -> None:
    if legal:
        run_ptx(load(GOOD, start), SOURCE, GOOD.encode(), shared=SMEM, smem=6144)
    else:
        assert "multiple of 16" in fault_of(
            load(GOOD, start), SOURCE, GOOD.encode(), shared=SMEM, smem=6144
        )


def test_descriptor_from_global_memory_and_the_dsl_flag() -> None:
    source = image(8, 64)
    tm = tensor(source, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)
    raw = bytearray(tm.encode())
    raw[8] |= 2
    descriptor = aligned(128, np.uint8)
    descriptor[:] = np.frombuffer(bytes(raw), np.uint8)
    out = aligned(1024, np.uint8)
    body = (load(tm, (0, 0)) + dump(1024)).replace("%m0", "%p2")
    run_ptx("prefetch.tensormap [%p2];" + body, source, out, descriptor, shared=SMEM, smem=4096)
    assert (out == loaded(tm, source, (0, 0))).all()


SOURCE = image(64, 64)
GOOD = tensor(SOURCE, (64, 8), "BFLOAT16", swizzle=TmaSwizzle.B128)


def change(raw: bytes, at: int, value: int) -> bytes:
    return raw[:at] + bytes([value]) + raw[at + 1 :]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda text: text.replace("[%r1+1024]", "[%r1+1040]"), "alignment of 128"),
        (lambda text: text.replace("[%r1+1024]", "[%r1+7168]"), "past the end"),
        (lambda text: text.replace("[%r1+1024]", "[%r1+0]"), "live mbarrier"),
        (lambda text: text.replace("{0, 0}], [%r1]", "{0, 0}], [%r1+8]"), "no live mbarrier"),
        (
            lambda text: text.replace("2d", "3d").replace("{0, 0}", "{0, 0, 0}"),
            "the tensor map has rank 2",
        ),
        (lambda text: text.replace("[%m0,", "[%m0+64,"), "param-address"),
        (lambda text: text.replace("[%m0,", "[%m0+32,"), "alignment of 64"),
        (lambda text: text.replace(", 1024;", ", 1020;"), "deadlock"),
    ],
)
def test_operands_are_checked(edit: Any, reason: str) -> None:
    text = load(GOOD, (0, 0))
    assert edit(text) != text
    assert reason in fault_of(edit(text), SOURCE, GOOD.encode(), shared=SMEM, smem=6144)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (change(GOOD.encode(), 9, 0x6D), "unknown meaning"),
        (change(GOOD.encode(), 8, 0x70), "rank is above 5"),
        (change(GOOD.encode(), 55, 127), "wider than the swizzle span"),
        (change(GOOD.encode(), 55, 60), "multiple of 16 bytes"),
        (change(GOOD.encode(), 36, 200), "outside of every known allocation"),
        (bytes(8) + GOOD.encode()[8:], "outside of every known allocation"),
    ],
)
def test_descriptors_are_checked(raw: bytes, reason: str) -> None:
    coords = (0, 100) if "allocation" in reason and raw[36] == 200 else (0, 0)
    assert reason in fault_of(load(GOOD, coords), SOURCE, raw, shared=SMEM, smem=6144)


def test_forms_that_are_not_covered_stop_with_their_line() -> None:
    for mode in ("im2col_no_offs", "tile::gather4"):
        with pytest.raises(PtxError, match=mode):
            run_ptx(
                load(GOOD, (0, 0)).replace(".tile", "." + mode),
                SOURCE,
                GOOD.encode(),
                shared=SMEM,
                smem=6144,
            )
