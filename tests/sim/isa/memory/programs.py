"""What the memory and synchronisation tests share: aligned buffers, faults, thread blocks of
PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.report import SimulationFault
from tests.sim.harness import run_ptx

SMEM = ".extern .shared .align 1024 .b8 dyn[];"
"""Dynamic shared memory; starts at window offset 0x400."""

DYN = 0x400


def aligned(count: int, dtype: Any, alignment: int = 256) -> npt.NDArray[Any]:
    """Zeros whose address is a multiple of `alignment`."""
    size = count * np.dtype(dtype).itemsize
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size].view(dtype)


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` at an aligned address, same shape."""
    out = aligned(array.size, array.dtype)
    out[:] = array.ravel()
    return out.reshape(array.shape)


def fault_of(body: str, *arguments: Any, **options: Any) -> str:
    """The text of the fault that stops `body`."""
    with pytest.raises(SimulationFault) as caught:
        run_ptx(body, *arguments, **options)
    return str(caught.value)


def only(thread: int, body: str, label: str = "SKIP") -> str:
    """`body` for one thread of the CTA (uses %q15 and %r40)."""
    return (
        f"mov.u32 %r40, %tid.x; setp.ne.u32 %q15, %r40, {thread}; @%q15 bra {label}; "
        f"{body} {label}:"
    )


def wait(bar: str, parity: int, label: str) -> str:
    """Spin on try_wait, as compilers emit it (uses %q14)."""
    return (
        f"{label}: mbarrier.try_wait.parity.shared.b64 %q14, [{bar}], {parity}, 10000000; "
        f"@!%q14 bra {label};"
    )


def tensor(array: npt.NDArray[Any], box: tuple[int, ...], element: str, **fields: Any) -> TensorMap:
    """Tensor map of a C-contiguous array whose last axis is dimension 0; `box` likewise starts
    with dimension 0."""
    return TensorMap(
        element=element,
        address=array.ctypes.data,
        sizes=tuple(reversed(array.shape)),
        strides=tuple(reversed(array.strides[:-1])),
        box=box,
        **fields,
    )
