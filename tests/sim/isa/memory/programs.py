"""What the memory and synchronisation tests share: aligned buffers, faults, thread blocks of
PTX."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pytest

from sm100sim.layouts.tensor_map import TensorMap
from sm100sim.report import SimulationFault
from testing.harness import SMEM, aligned, aligned_copy, only, run_ptx

__all__ = ["DYN", "SMEM", "aligned", "aligned_copy", "fault_of", "only", "tensor", "wait"]

DYN = 0x400


def fault_of(body: str, *arguments: Any, **options: Any) -> str:
    """The text of the fault that stops `body`."""
    with pytest.raises(SimulationFault) as caught:
        run_ptx(body, *arguments, **options)
    return str(caught.value)


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
