"""Where the elements of a box lie, in shared and in global memory: stated for tests of copies."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from sm100sim.layouts.tensor_map import TensorMap


def element_offsets(tm: TensorMap, destination: int) -> npt.NDArray[np.int64]:
    """Shared address of every element of the box at `destination`, dimension 0 last.

    Rows narrower than the swizzle span start one span apart (seen on H200).
    """
    pitch = max(tm.box[0] * tm.element_bytes, tm.swizzle.span)
    rows = np.arange(prod(tm.counts[1:]), dtype=np.int64) * pitch + destination
    columns = np.arange(tm.box[0], dtype=np.int64) * tm.element_bytes
    return tm.swizzle.apply(rows[:, None] + columns).reshape(tm.counts[::-1])


def element_addresses(tm: TensorMap, start: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Global address of the same elements of the box at `start`; -1 outside of the tensor."""
    strides = (tm.element_bytes, *tm.strides)
    steps = (1, *tm.steps[1:])
    address = np.full((1,) * tm.rank, tm.address, np.int64)
    inside = np.ones((1,) * tm.rank, np.bool_)
    for d in range(tm.rank):
        index = start[d] + np.arange(tm.counts[d], dtype=np.int64) * steps[d]
        shape = [1] * tm.rank
        shape[tm.rank - 1 - d] = tm.counts[d]
        address = address + (index * strides[d]).reshape(shape)
        inside = inside & ((index >= 0) & (index < tm.sizes[d])).reshape(shape)
    return np.where(inside, address, -1)
