"""Tensor maps of the types that convert or pack: tf32 and 4-bit elements."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import FLAG_LARGE, TensorMap, TensorMapRefused
from testing.harness import run_ptx
from tests.sim.isa.memory.programs import SMEM, aligned, aligned_copy, fault_of, tensor
from tests.sim.isa.memory.test_tma import dump, load

RNG = np.random.default_rng(5)


def packed(source: np.ndarray, box: tuple[int, int]) -> TensorMap:
    """A map of 4-bit elements over a (rows, bytes) uint8 array."""
    rows, row_bytes = source.shape
    return TensorMap("16U4_ALIGN8B", source.ctypes.data, (2 * row_bytes, rows), (row_bytes,), box)


def test_packed_4_bit_elements_are_copied_two_to_a_byte() -> None:
    source = aligned_copy(RNG.integers(0, 256, (16, 128), dtype=np.uint8))
    out = aligned(512, np.uint8)
    tm = packed(source, (128, 8))
    assert tm.box_bytes == 512
    run_ptx(load(tm, (64, 4)) + dump(512), source, out, tm.encode(), shared=SMEM, smem=4096)
    assert (out.reshape(8, 64) == source[4:12, 32:96]).all()


def test_packed_elements_outside_of_the_tensor_are_zero() -> None:
    source = aligned_copy(RNG.integers(1, 256, (16, 128), dtype=np.uint8))
    out = aligned(512, np.uint8)
    tm = packed(source, (128, 8))
    run_ptx(load(tm, (192, 12)) + dump(512), source, out, tm.encode(), shared=SMEM, smem=4096)
    expected = np.zeros((8, 64), np.uint8)
    expected[:4, :32] = source[12:, 96:]
    assert (out.reshape(8, 64) == expected).all()


@pytest.mark.parametrize(("element", "bits"), [("16U4_ALIGN16B", 4), ("16U6_ALIGN16B", 6)])
@pytest.mark.parametrize("swizzle", [TmaSwizzle.NONE, TmaSwizzle.B128])
def test_elements_with_gaps_take_16_bytes_for_sixteen(
    element: str, bits: int, swizzle: TmaSwizzle
) -> None:
    """cuTensorMapEncodeTiled: gaps of 8 bytes after 8, of 4 after 12; the barrier counts no gap."""
    row_bytes = 256 * bits // 8
    source = aligned_copy(RNG.integers(0, 256, (16, row_bytes), dtype=np.uint8))
    tm = TensorMap(
        element, source.ctypes.data, (256, 16), (row_bytes,), (128, 8), swizzle=swizzle
    )
    assert tm.box_bytes == 128 * bits
    out = aligned(1024, np.uint8)
    run_ptx(load(tm, (128, 4)) + dump(1024), source, out, tm.encode(), shared=SMEM, smem=4096)
    units = out.reshape(8, 8, 16).copy()
    if swizzle == TmaSwizzle.B128:
        units = np.stack([units[row][np.arange(8) ^ row] for row in range(8)])
    whole = source[4:12, row_bytes // 2 :].reshape(8, 8, 2 * bits)
    assert (units[:, :, : 2 * bits] == whole).all()


def test_maps_of_elements_with_gaps_have_rules() -> None:
    source = aligned_copy(np.zeros((16, 128), np.uint8))
    good = TensorMap("16U4_ALIGN16B", source.ctypes.data, (256, 16), (128,), (128, 8))
    assert TensorMap.decode(good.encode()) == replace(good, element_strides=(1, 1))
    for bad in (
        replace(good, box=(64, 8)), replace(good, sizes=(192, 16)),
        replace(good, strides=(144,)), replace(good, swizzle=TmaSwizzle.B64),
    ):  # fmt: skip
        with pytest.raises(TensorMapRefused):
            bad.encode()
    body = load(good, (64, 0))
    assert "no multiple of 128" in fault_of(
        body, source, source, good.encode(), shared=SMEM, smem=4096
    )


def test_a_packed_box_starts_at_a_whole_byte() -> None:
    source = aligned_copy(np.zeros((16, 128), np.uint8))
    tm = packed(source, (128, 8))
    body = load(tm, (33, 0))
    assert "is odd" in fault_of(body, source, source, tm.encode(), shared=SMEM, smem=4096)


def test_tf32_loads_round_to_nearest_even_and_stores_do_not() -> None:
    bits = aligned_copy(RNG.standard_normal((8, 32)).astype(np.float32).view(np.uint32))
    tm = replace(tensor(bits, (32, 4), "UINT32"), element="TFLOAT32")
    out = aligned(128, np.uint32)
    run_ptx(load(tm, (0, 2)) + dump(512), bits, out, tm.encode(), shared=SMEM, smem=4096)
    half, odd = np.uint32(0xFFF), bits >> np.uint32(13) & np.uint32(1)
    assert (out.reshape(4, 32) == ((bits + half + odd) & np.uint32(0xFFFFE000))[2:6]).all()


def test_the_flag_of_large_tensors_changes_nothing() -> None:
    source = aligned_copy(RNG.integers(0, 256, (16, 128), dtype=np.uint8))
    out = aligned(512, np.uint8)
    tm = tensor(source, (64, 8), "UINT8")
    raw = bytearray(tm.encode())
    (flags,) = struct.unpack_from("<I", raw, 8)
    struct.pack_into("<I", raw, 8, flags | FLAG_LARGE)
    assert TensorMap.decode(bytes(raw)) == replace(tm, element_strides=(1, 1))
    run_ptx(load(tm, (64, 4)) + dump(512), source, out, bytes(raw), shared=SMEM, smem=4096)
    assert (out.reshape(8, 64) == source[4:12, 64:]).all()
