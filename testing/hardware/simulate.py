"""Runs micro-kernels on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from sm100sim.layouts.swizzle import TmaSwizzle
from sm100sim.layouts.tensor_map import TensorMap
from testing.hardware.case import Case, MapArgs
from testing.harness import aligned_copy, run_ptx


def _map(args: MapArgs, address: int) -> bytes:
    return TensorMap(
        element=args.element, address=address, sizes=args.sizes, strides=args.strides, box=args.box,
        element_strides=args.steps, swizzle=TmaSwizzle(args.swizzle), nan_fill=args.nan_fill,
    ).encode()  # fmt: skip


def simulate(case: Case, **options: Any) -> list[np.ndarray]:
    """Outputs of the case on the simulator; keyword arguments are `RunOptions` fields, besides those
    that the case asks for."""
    options = {**case.extra, **options}
    buffers = [aligned_copy(a) for a in (*case.inputs, *case.outputs)]
    maps = [_map(m, buffers[m.buffer].ctypes.data) for m in case.maps]
    run_ptx(
        case.body, *buffers, *maps, *case.numbers, grid=(case.grid, 1, 1), block=case.block,
        cluster=(case.cluster, 1, 1), smem=case.smem, shared=case.shared,
        directives=case.directives, **options,
    )  # fmt: skip
    return buffers[len(case.inputs) :]
