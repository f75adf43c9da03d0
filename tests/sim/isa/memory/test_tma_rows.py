"""Tensor copies of four rows that the coordinates name: .tile::gather4 and .tile::scatter4."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.options import Check
from sm100sim.report import UnsupportedExecuted
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of, only, tensor, wait

MODES = ["fast", "random", "late"]
WIDTH, ROWS = 64, 16
GATHER = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
SCATTER = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"


def matrix() -> np.ndarray:
    return aligned_copy(np.arange(ROWS * WIDTH, dtype=np.uint16).reshape(ROWS, WIDTH))


def load(coords: tuple[int, ...], count: int, form: str = GATHER) -> str:
    """Four pieces of rows to dyn + 1024, and `count` bytes from there to %p1."""
    listed = "{" + ", ".join(str(c) for c in coords) + "}"
    return (
        "mov.u32 %r1, dyn;"
        + only(
            0,
            "mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;"
            f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {count};"
            f"{form} [%r1+1024], [%m0, {listed}], [%r1];",
            "T",
        )
        + "bar.sync 0;"
        + wait("%r1", 0, "W")
        + "mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4; mad.wide.u32 %rd1, %r0, 16, %p1;"
        "add.u32 %r5, %r1, %r2; ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r5+1024];"
        "st.global.v4.b32 [%rd1], {%r10, %r11, %r12, %r13};"
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swizzle", [TmaSwizzle.NONE, TmaSwizzle.B128, TmaSwizzle.B128_ATOM32])
@pytest.mark.parametrize("rows", [(3, 0, 15, 7), (5, 5, 5, 5), (0, 16, -1, 2)])
def test_gather_places_rows_one_after_the_other(
    rows: tuple[int, ...], swizzle: TmaSwizzle, mode: str
) -> None:
    """Rows outside of the tensor are filled with zeros and counted."""
    source, out = matrix(), aligned(512, np.uint8)
    tm = tensor(source, (WIDTH, 1), "UINT16", swizzle=swizzle)
    text = load((0, *rows), 512)
    report = run_ptx(
        text, source, out, tm.encode(), shared=SMEM, smem=2048, mode=mode, checks=Check.ALL
    )
    assert report.verdict == "clean"
    expected = np.zeros((4, WIDTH), np.uint16)
    for k, row in enumerate(rows):
        if 0 <= row < ROWS:
            expected[k] = source[row]
    places = swizzle.apply(0x800 + np.arange(512, dtype=np.int64)) - 0x800
    assert (out[places] == expected.view(np.uint8).ravel()).all()


def test_the_first_coordinate_is_the_column() -> None:
    source, out = matrix(), aligned(512, np.uint8)
    tm = tensor(source, (32, 1), "UINT16")
    text = load((48, 1, 2, 3, 4), 256)
    run_ptx(text, source, out, tm.encode(), shared=SMEM, smem=2048, block=16)
    held = out[:256].view(np.uint16).reshape(4, 32)
    assert (held[:, :16] == source[1:5, 48:]).all()
    assert (held[:, 16:] == 0).all()


def scatter(coords: tuple[int, ...]) -> str:
    listed = "{" + ", ".join(str(c) for c in coords) + "}"
    return (
        "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 4; add.u32 %r5, %r1, %r2;"
        "mad.wide.u32 %rd1, %r0, 16, %p0; ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd1];"
        "st.shared.v4.b32 [%r5+1024], {%r10, %r11, %r12, %r13};"
        "fence.proxy.async.shared::cta; bar.sync 0;"
        + only(
            0,
            f"{SCATTER} [%m0, {listed}], [%r1+1024];"
            "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        )
    )


@pytest.mark.parametrize("mode", MODES)
def test_scatter_writes_each_row_to_its_place(mode: str) -> None:
    target, source = matrix(), aligned(256, np.uint16)
    source[:] = np.arange(256) + 5000
    tm = tensor(target, (WIDTH, 1), "UINT16")
    expected = target.copy()
    text = scatter((0, 9, 2, 16, 4))  # row 16 is outside
    report = run_ptx(
        text, source, target, tm.encode(), shared=SMEM, smem=2048, mode=mode, checks=Check.ALL
    )
    assert report.verdict == "clean"
    for k, row in ((0, 9), (1, 2), (3, 4)):
        expected[row] = source.reshape(4, WIDTH)[k]
    assert (target == expected).all()


def test_rules() -> None:
    source, out = matrix(), aligned(512, np.uint8)
    several = tensor(source, (WIDTH, 2), "UINT16").encode()
    options = {"shared": SMEM, "smem": 2048}
    text = fault_of(load((0, 1, 2, 3, 4), 512), source, out, several, **options)
    assert "the box of a copy of four rows has one row, the tensor map's has 2" in text
    one = tensor(source, (WIDTH, 1), "UINT16").encode()
    assert "tma-coordinate" in fault_of(scatter((0, 1, -2, 3, 4)), source, out, one, **options)
    assert "tma-coordinate" in fault_of(load((3, 1, 2, 3, 4), 512), source, out, one, **options)


@pytest.mark.parametrize(
    ("form", "coords", "words"),
    [
        (GATHER, (0, 1), "5 coordinates expected, 2 given"),
        (GATHER.replace("2d", "3d"), (0, 1, 2, 3, 4), ".tile::gather4 exists with .2d only"),
        (GATHER.replace("gather4", "scatter4"), (0, 1, 2, 3, 4), "modifier .tile::scatter4"),
        (GATHER.replace("tile::gather4", "im2col"), (0, 1), ".im2col exists with .3d, .4d and .5d"),
    ],
)
def test_forms_that_do_not_exist(form: str, coords: tuple[int, ...], words: str) -> None:
    source = matrix()
    tm = tensor(source, (WIDTH, 1), "UINT16").encode()
    with pytest.raises(UnsupportedExecuted, match=words):
        run_ptx(load(coords, 512, form), source, source, tm, shared=SMEM, smem=2048)
