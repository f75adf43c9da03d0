"""Launches, kernels' attributes and occupancy (CUDA Runtime API, "Execution Control")."""

from __future__ import annotations

from typing import Final

from ...launch_request import COOPERATIVE
from ..api.functions import (
    DYNAMIC_SMEM,
    LOCAL_BYTES,
    MAX_THREADS,
    REGISTERS,
    STATIC_SMEM,
    available_smem,
    blocks_per_sm,
    get_attribute,
    set_attribute,
)
from ..api.launches import (
    Shape,
    active_clusters,
    dims,
    launching,
    potential_cluster,
    read_shape,
)
from ..api.modules import parameter
from ..base.session import KERNEL_NODE, Session
from ..base.table import I32, entry
from .registration import function_at, kernel_at

_CONFIG: Final = "6IQQQI"
_NUMBERS: Final = (MAX_THREADS, REGISTERS, 5, 6, 7, DYNAMIC_SMEM, 9, 10, 11, 12, 13, 15, 14)
"""Function attributes in the order of `cudaFuncAttributes`, after its three sizes."""


def extents(xy: int, z: int) -> tuple[int, int, int]:
    """A `dim3` that came in two words."""
    return dims((xy, xy >> 32, z))


def _launch(s: Session, stub: int, shape: Shape, pointers: int) -> None:
    s.submit(shape.stream, launching(s, function_at(s, stub), shape, pointers), KERNEL_NODE)


@entry("cudaLaunchKernel", "__cudaLaunchKernel")
def launch(s: Session, *words: int) -> None:
    """Launch a kernel."""
    shape = Shape(extents(*words[1:3]), extents(*words[3:5]), words[6], words[7])
    _launch(s, words[0], shape, words[5])


@entry("cudaLaunchCooperativeKernel")
def launch_cooperative(s: Session, *words: int) -> None:
    """Launch a kernel whose CTAs must all fit at once."""
    attributes = {COOPERATIVE: b"\1".ljust(64, b"\0")}
    shape = Shape(extents(*words[1:3]), extents(*words[3:5]), words[6], words[7], attributes)
    _launch(s, words[0], shape, words[5])


@entry("cudaLaunchKernelExC")
def launch_ex(s: Session, config: int, stub: int, pointers: int) -> None:
    """Launch a kernel with attributes."""
    _launch(s, stub, read_shape(s, config, _CONFIG), pointers)


@entry("cudaFuncSetAttribute", "cudaKernelSetAttributeForDevice")
def set_function_attribute(s: Session, stub: int, number: I32, value: I32) -> None:
    """Set an attribute."""
    set_attribute(s, kernel_at(s, stub), number, value)


@entry("cudaFuncGetAttributes")
def function_attributes(s: Session, out: int, stub: int) -> None:
    """Give all attributes."""
    kernel = kernel_at(s, stub)
    sizes = (get_attribute(s, kernel, STATIC_SMEM), 0, get_attribute(s, kernel, LOCAL_BYTES))
    values = [get_attribute(s, kernel, number) for number in _NUMBERS]
    s.program.put(out, f"3Q{len(values)}i", *sizes, *values)


@entry("cudaFuncGetName")
def function_name(s: Session, out: int, stub: int) -> None:
    """Give the kernel's name."""
    s.program.put(out, "Q", s.text(kernel_at(s, stub).kernel.name))


@entry("cudaFuncGetParamInfo")
def function_parameter(s: Session, stub: int, index: int, offset: int, size: int) -> None:
    """Give offset and bytes of a parameter."""
    parameter(s, function_at(s, stub), index, offset, size)


@entry(
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
)
def active_blocks(s: Session, out: int, stub: int, threads: I32, smem: int) -> None:
    """Give the blocks that an SM holds."""
    s.program.put(out, "i", blocks_per_sm(s, kernel_at(s, stub), threads, smem))


@entry("cudaOccupancyAvailableDynamicSMemPerBlock")
def available(s: Session, out: int, stub: int, blocks: I32, threads: I32) -> None:
    """Give the shared memory that is left for each of some blocks of an SM."""
    available_smem(s, out, function_at(s, stub), blocks, threads)


@entry("cudaOccupancyMaxActiveClusters")
def max_active_clusters(s: Session, out: int, stub: int, config: int) -> None:
    """Give the clusters that the device holds."""
    s.program.put(out, "i", active_clusters(s, kernel_at(s, stub), read_shape(s, config, _CONFIG)))


@entry("cudaOccupancyMaxPotentialClusterSize")
def max_cluster(s: Session, out: int, stub: int, config: int) -> None:
    """Give the CTAs of the largest cluster."""
    potential_cluster(s, out, function_at(s, stub), config)
