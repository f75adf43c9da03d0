"""Im2col copies: pixels of a bounding box, image after image (PTX ISA, "Im2col Mode")."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from sm100sim.layouts.im2col import Im2colMap, pixel_box
from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMapRefused
from sm100sim.options import Check
from sm100sim.report import UnsupportedExecuted
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of, only, tensor, wait

MODES = ["fast", "random", "late"]
FORM = "cp.async.bulk.tensor.{}d.shared::cta.global.im2col.mbarrier::complete_tx::bytes"


def images(*shape: int) -> np.ndarray:
    """Images (N, ..., W, C) whose elements differ."""
    return aligned_copy(np.arange(1, 1 + np.prod(shape), dtype=np.uint16).reshape(shape))


def columns(
    source: np.ndarray, channels: int, pixels: int, *corners: tuple[int, ...], **changes: Any
) -> Im2colMap:
    """A map of `source`; corners are innermost first."""
    tiled = tensor(source, pixel_box(channels, source.ndim), "UINT16", **changes)
    low, high = corners
    return Im2colMap(tiled, low, high, pixels)


def load(tm: Im2colMap, start: tuple[int, ...], offsets: tuple[int, ...], form: str = FORM) -> str:
    """The pixels from `start` on, innermost coordinate first, to dyn + 1024 and on to %p1."""
    count = tm.pixels * tm.tensor.box[0] * 2
    coords, shift = (", ".join(str(x) for x in numbers) for numbers in (start, offsets))
    return (
        "mov.u32 %r1, dyn;"
        + only(
            0,
            "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;"
            f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {count};"
            f"{form.format(tm.tensor.rank)} [%r1+1024], [%m0, {{{coords}}}], [%r1], {{{shift}}};",
            "T",
        )
        + "bar.sync 0;"
        + wait("%r1", 0, "W")
        + "mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4; "
        f"D: setp.ge.u32 %q1, %r2, {count}; @%q1 bra E; cvt.u64.u32 %rd1, %r2;"
        "add.s64 %rd1, %rd1, %p1; add.u32 %r5, %r1, %r2;"
        "ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r5+1024];"
        "st.global.v4.b32 [%rd1], {%r10, %r11, %r12, %r13}; add.u32 %r2, %r2, 512; bra D; E:"
    )


def moved(
    source: np.ndarray, tm: Im2colMap, start: tuple[int, ...], offsets: tuple[int, ...], mode: str
) -> np.ndarray:
    """What the copy places, (pixels, channels), swizzle undone; clean under all checks."""
    channels = tm.tensor.box[0]
    out = aligned(tm.pixels * channels, np.uint16)
    report = run_ptx(
        load(tm, start, offsets), source, out, tm.encode(), shared=SMEM,
        smem=1024 + out.nbytes, mode=mode, checks=Check.ALL,
    )  # fmt: skip
    assert report.verdict == "clean"
    assert report.tma_bytes_loaded == out.nbytes
    places = tm.tensor.swizzle.apply(0x800 + np.arange(out.nbytes, dtype=np.int64)) - 0x800
    return out.view(np.uint8)[places].view(np.uint16).reshape(tm.pixels, channels)


def expected(
    source: np.ndarray, tm: Im2colMap, start: tuple[int, ...], offsets: tuple[int, ...]
) -> np.ndarray:
    """The same by the words of the ISA: all filter bases in order, from the first one on."""
    n, *spatial, _ = source.shape
    steps = tm.tensor.steps[1:-1][::-1]
    corners = zip(tm.lower[::-1], tm.upper[::-1], spatial, steps, strict=True)
    ranges = [range(lower, size + upper, step) for lower, upper, size, step in corners]
    bases = list(product(range(n + 2), *ranges))
    first = bases.index((start[-1], *start[-2:0:-1]))
    out = np.zeros((tm.pixels, tm.tensor.box[0]), np.uint16)
    for pixel, (image, *base) in zip(out, bases[first:], strict=False):
        at = [x + off for x, off in zip(base, offsets[::-1], strict=True)]
        if image < n and all(0 <= x < size for x, size in zip(at, spatial, strict=True)):
            row = source[(image, *at)][start[0] : start[0] + len(pixel)]
            pixel[: len(row)] = row
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("corner", "start", "offsets", "first"),
    [
        ((0, 0), (0, 0, 0, 0), (0, 0), range(1, 17)),
        ((-1, -1), (0, -1, -1, 0), (0, 0), (0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11)),
        ((-1, -1), (0, -1, -1, 0), (1, 1), range(1, 17)),
        ((0, 0), (0, 3, 1, 0), (0, 0), range(8, 24)),
    ],
)
def test_what_a_hopper_gpu_is_known_to_load(
    corner: tuple[int, int],
    start: tuple[int, ...],
    offsets: tuple[int, int],
    first: tuple[int, ...],
    mode: str,
) -> None:
    """The four examples of Triton's tutorial on im2col, which asserts these pixels on Hopper."""
    numbers = np.arange(1, 33, dtype=np.uint16)
    source = aligned_copy(np.repeat(numbers[:, None], 32, 1).reshape(2, 4, 4, 32))
    tm = columns(source, 32, 16, corner, corner)
    found = moved(source, tm, start, offsets, mode)
    assert (found == np.array(first)[:, None]).all()


CASES = {
    "3d": ((3, 10, 16), (-2,), (1,), (0, 4, 1), (3,), (1, 1, 1)),
    "4d": ((2, 7, 9, 64), (-1, -1), (-1, -1), (0, 7, 3, 0), (2, 1), (1, 1, 1, 1)),
    "4d, strides": ((2, 14, 8, 64), (-1, -1), (-1, -1), (0, 5, 7, 0), (1, 1), (1, 2, 2, 1)),
    "4d, other strides": ((3, 11, 8, 16), (-1, 0), (0, -2), (0, 2, 5, 0), (0, 2), (1, 3, 5, 1)),
    "4d, beyond the images": ((2, 3, 3, 16), (0, 0), (0, 0), (0, 1, 2, 1), (0, 0), (1, 1, 1, 1)),
    "4d, some channels": ((1, 5, 6, 40), (0, 0), (-2, -2), (24, 0, 0, 0), (2, 2), (1, 1, 1, 1)),
    "5d": ((2, 3, 5, 4, 8), (-1, 0, -1), (0, -1, 1), (0, 1, 2, 0, 0), (1, 0, 1), (1, 1, 1, 1, 1)),
}
"""Name -> shape, corners, first filter base and channel, offsets, traversal strides."""


PLACED = [
    (name, swizzle)
    for name, case in CASES.items()
    for swizzle in (TmaSwizzle.NONE, TmaSwizzle.B32, TmaSwizzle.B128)
    if 2 * case[0][-1] >= swizzle.span
]
"""Pixels that fill the swizzle's span, so that they lie one after the other."""


@pytest.mark.parametrize(("name", "swizzle"), PLACED)
def test_pixels_come_in_the_order_of_the_isa(name: str, swizzle: TmaSwizzle) -> None:
    shape, lower, upper, start, offsets, steps = CASES[name]
    source = images(*shape)
    channels = swizzle.span // 2 or min(16, shape[-1])
    tm = columns(source, channels, 40, lower, upper, swizzle=swizzle, element_strides=steps)
    found = moved(source, tm, start, offsets, "fast")
    np.testing.assert_array_equal(found, expected(source, tm, start, offsets))


def test_pixels_outside_are_filled_with_nan_where_the_map_says_so() -> None:
    source = images(1, 2, 2, 8)
    tm = columns(source, 8, 5, (0, 0), (0, 0))
    nan = Im2colMap(
        tensor(source, pixel_box(8, 4), "BFLOAT16", nan_fill=True), tm.lower, tm.upper, 5
    )
    assert (moved(source, nan, (0, 0, 0, 0), (0, 0), "fast")[4] == 0x7FF7).all()


def test_rules_of_the_instruction() -> None:
    source, out = images(2, 7, 9, 64), aligned(512, np.uint16)
    tm = columns(source, 8, 16, (-1, -1), (-1, -1))
    strided = columns(source, 8, 16, (-1, -1), (-1, -1), element_strides=(1, 2, 2, 1))
    good = load(tm, (0, -1, -1, 0), (0, 0))
    for text, given, words in (
        (load(tm, (0, 8, 0, 0), (0, 0)), tm, "filter base 8 of dimension 1 is outside"),
        (load(tm, (0, 0, -2, 0), (0, 0)), tm, "filter base -2 of dimension 2 is outside"),
        (load(tm, (0, 0, 0, 0), (0, 256)), tm, "im2col offset 256 is above 255"),
        (load(tm, (4, 0, 0, 0), (0, 0)), tm, "starts 8 bytes into a row"),
        (load(strided, (0, 0, -1, 0), (0, 0)), strided, "where the next line starts"),
        (good, tm.tensor, "the instruction is in im2col mode, the tensor map in tile mode"),
        (good.replace("im2col", "tile").replace(", {0, 0}", ""), tm, "the tensor map in im2col"),
    ):
        fault = fault_of(text, source, out, given.encode(), shared=SMEM, smem=2048)
        assert words in fault
    beyond = aligned(1, np.uint16)
    tail = fault_of(good, beyond, out, tm.encode(), shared=SMEM, smem=2048)
    assert "global-address" in tail


STORE = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
SUM = "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.im2col_no_offs.bulk_group"


def store(form: str, start: tuple[int, ...], count: int) -> str:
    """`count` bytes from %p0 to dyn + 1024, and from there to the pixels from `start` on."""
    coords = ", ".join(str(x) for x in start)
    return (
        "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4;"
        f"D: setp.ge.u32 %q1, %r2, {count}; @%q1 bra E; cvt.u64.u32 %rd1, %r2;"
        "add.s64 %rd1, %rd1, %p0; add.u32 %r5, %r1, %r2;"
        "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1];"
        "st.shared.v4.b32 [%r5+1024], {%r10, %r11, %r12, %r13}; add.u32 %r2, %r2, 512; bra D; E:"
        "fence.proxy.async.shared::cta; bar.sync 0;"
        + only(
            0,
            f"{form} [%m0, {{{coords}}}], [%r1+1024];"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        )
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", [STORE, SUM])
def test_a_store_goes_the_same_way(form: str, mode: str) -> None:
    """What is beyond the images is not written."""
    target, pixels = images(2, 5, 6, 8), 40
    before = target.copy()
    source = aligned_copy(np.arange(5000, 5000 + pixels * 8, dtype=np.uint16).reshape(pixels, 8))
    start, steps = (0, 2, 3, 0), (1, 2, 1, 1)
    element = "UINT16" if form == STORE else "FLOAT16"
    tiled = tensor(target, pixel_box(8, 4), element, element_strides=steps)
    if form == SUM:
        source[:], before[:], target[:] = 0x3C00, 0x4000, 0x4000  # 1 to each 2 gives 3
    tm = Im2colMap(tiled, (0, 1), (-1, 0), pixels)
    where = expected(aligned_copy(np.arange(1, 481, dtype=np.uint16).reshape(2, 5, 6, 8)), tm,
                     start, (0, 0))  # fmt: skip
    report = run_ptx(
        store(form, start, source.nbytes), source, target, tm.encode(), shared=SMEM,
        smem=1024 + source.nbytes, mode=mode, checks=Check.ALL,
    )  # fmt: skip
    assert report.verdict == "clean"
    flat = before.reshape(-1)
    written = where > 0
    assert not written.all()
    flat[where[written] - 1] = source[written] if form == STORE else 0x4200
    np.testing.assert_array_equal(target, before)


def test_a_store_s_bounding_box_begins_in_the_tensor() -> None:
    source, target = aligned(16 * 8, np.uint16), images(2, 5, 6, 8)
    tm = columns(target, 8, 16, (0, -1), (0, 0)).encode()
    text = fault_of(store(STORE, (0, 0, 0, 0), 256), source, target, tm, shared=SMEM, smem=2048)
    assert "unsupported: an im2col store whose bounding box begins outside" in text


def test_the_mode_may_stand_before_the_spaces() -> None:
    """As CUTLASS writes it for pairs of CTAs."""
    source = images(2, 7, 9, 64)
    tm = columns(source, 8, 16, (0, 0), (0, 0))
    form = "cp.async.bulk.tensor.{}d.im2col.shared::cta.global.mbarrier::complete_tx::bytes"
    out = aligned(128, np.uint16)
    text = load(tm, (0, 0, 0, 0), (0, 0), form)
    run_ptx(text, source, out, tm.encode(), shared=SMEM, smem=2048)
    assert (out.reshape(16, 8) == expected(source, tm, (0, 0, 0, 0), (0, 0))).all()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (".im2col.", ".im2col::w.", "mode .im2col::w is not in"),
        (", {0, 0};", ";", "4 operands expected"),
        (", {0, 0};", ", {0};", "2 of them"),
        ("tensor.4d", "tensor.2d", ".im2col exists with .3d"),
    ],
)
def test_forms_that_do_not_exist(old: str, new: str, words: str) -> None:
    source = images(2, 7, 9, 64)
    tm = columns(source, 8, 16, (0, 0), (0, 0))
    text = load(tm, (0, 0, 0, 0), (0, 0))
    assert old in text
    with pytest.raises(UnsupportedExecuted, match=words):
        run_ptx(text.replace(old, new), source, source, tm.encode(), shared=SMEM, smem=2048)


def test_a_prefetch_takes_the_same_operands() -> None:
    source = images(2, 7, 9, 64)
    tm = columns(source, 8, 16, (0, 0), (0, 0)).encode()
    text = only(0, "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%m0, {0, X, 0, 0}], {0, 0};")
    run_ptx(text.replace("X", "8"), source, tm)
    assert "filter base 9" in fault_of(text.replace("X", "9"), source, tm)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pixels": 1025}, "1025 pixels"),
        ({"lower": (0,)}, "corners of another rank"),
        ({"lower": (-129, 0)}, "needs 8 bits"),
        ({"upper": (0, -7)}, "bound nothing of 7"),
        ({"element_strides": (1, 1, 1, 2)}, "stride along N"),
    ],
)
def test_rules_of_the_map(change: dict[str, Any], words: str) -> None:
    source = images(2, 7, 9, 64)
    fields = {"lower": (0, 0), "upper": (0, 0), "pixels": 16, **change}
    steps = {"element_strides": fields.pop("element_strides", ())}
    tm = Im2colMap(tensor(source, pixel_box(8, 4), "UINT16", **steps), **fields)
    with pytest.raises(TensorMapRefused, match=words):
        tm.encode()
    with pytest.raises(TensorMapRefused, match="257 channels"):
        pixel_box(257, 4)
