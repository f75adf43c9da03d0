"""Attributes of kernels, and occupancy (CUDA Driver API, "Execution Control", "Occupancy")."""

from __future__ import annotations

import math
from typing import Final

from ...contract.codes import LANES, REGISTER_FILE, SMEM_RESERVED
from ...isa.assemble import Assembled
from ...run import prepare
from ..base.codes import CudaError, Status
from ..base.objects import Function
from ..base.session import Session
from ..base.table import I32, entry
from .device import attribute, known_device

MAX_THREADS, STATIC_SMEM, LOCAL_BYTES, REGISTERS, PTX_VERSION, BINARY_VERSION = 0, 1, 3, 4, 5, 6
DYNAMIC_SMEM, CLUSTER_NEEDED, CLUSTER_X, LARGE_CLUSTER = 8, 10, 11, 14
"""`CUfunction_attribute`."""
DEFAULT_SMEM: Final = 48 * 1024
PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16
BLOCKS_PER_SM, THREADS_PER_SM, SMEM_PER_SM, THREADS_PER_BLOCK, SMEM_PER_BLOCK = 106, 39, 81, 1, 97
"""`CUdevice_attribute`."""
MOST_REGISTERS: Final = 255


def placed_of(function: Function) -> tuple[tuple[str, int], ...]:
    """Name and address of the variables of a kernel's module, and values of its registers."""
    places = {name: address for name, (address, _) in function.module.placed.items()}
    return tuple((places | function.module.registers).items())


def prepared(function: Function) -> Assembled:
    """The kernel as the engine runs it."""
    return prepare(function.module.ptx, function.kernel.name, placed_of(function))


def max_threads(function: Function) -> int:
    """Threads that a block of the kernel may have."""
    for name in ("reqntid", "maxntid"):
        extents = function.kernel.directives.get(name)
        if isinstance(extents, tuple):
            return math.prod(int(n) for n in extents)
    return 1024


def required_cluster(function: Function) -> tuple[int, int, int] | None:
    """CTAs per cluster that the PTX fixes, or None."""
    extents = function.kernel.directives.get("reqnctapercluster")
    if not isinstance(extents, tuple):
        return None
    x, y, z = (int(n) for n in extents)
    return x, y, z


def registers(function: Function) -> int:
    """Registers per thread: what the PTX fixes, else the most with which its blocks still fit.

    How many ptxas would take is not known without it.
    """
    return prepared(function).entry_registers or min(
        MOST_REGISTERS, REGISTER_FILE // max_threads(function) // 8 * 8
    )


def dynamic_limit(function: Function) -> int:
    """Bytes of dynamic shared memory that the kernel may be launched with."""
    return function.attributes.get(DYNAMIC_SMEM, DEFAULT_SMEM - prepared(function).static_smem)


def get_attribute(s: Session, function: Function, number: int) -> int:
    """The value of a kernel's attribute.

    Raises:
        CudaError: it is not known.
    """
    cluster = required_cluster(function)
    if number == DYNAMIC_SMEM:
        return dynamic_limit(function)
    if number in function.attributes:
        return function.attributes[number]
    if number == MAX_THREADS:
        return max_threads(function)
    if number == STATIC_SMEM:
        return prepared(function).static_smem
    if number == LOCAL_BYTES:
        return prepared(function).local_bytes
    if number == REGISTERS:
        return registers(function)
    if number in (PTX_VERSION, BINARY_VERSION):
        return 10 * attribute(s, 75) + attribute(s, 76)
    if number == CLUSTER_NEEDED:
        return int(cluster is not None)
    if CLUSTER_X <= number < CLUSTER_X + 3:
        return 0 if cluster is None else cluster[number - CLUSTER_X]
    if number in (2, 7, 9, LARGE_CLUSTER, 15):
        return 0
    raise CudaError(Status.INVALID_VALUE, f"function attribute {number} is not known to sm100sim")


def set_attribute(s: Session, function: Function, number: int, value: int) -> None:
    """Remember an attribute.

    Raises:
        CudaError: more shared memory than the device has.
    """
    most = attribute(s, SMEM_PER_BLOCK)
    if number == DYNAMIC_SMEM and not 0 <= value + prepared(function).static_smem <= most:
        raise CudaError(Status.INVALID_VALUE, f"{value} bytes of shared memory; {most} exist")
    function.attributes[number] = value


@entry("cuFuncGetAttribute")
def function_attribute(s: Session, out: int, number: I32, function: int) -> None:
    """Give an attribute of a function."""
    s.program.put(out, "i", get_attribute(s, s.get(function, Function), number))


@entry("cuKernelGetAttribute")
def kernel_attribute(s: Session, out: int, number: I32, kernel: int, device: I32) -> None:
    """Give an attribute of a kernel."""
    known_device(device)
    function_attribute(s, out, number, kernel)


@entry("cuFuncSetAttribute")
def set_function_attribute(s: Session, function: int, number: I32, value: I32) -> None:
    """Set an attribute of a function."""
    set_attribute(s, s.get(function, Function), number, value)


@entry("cuKernelSetAttribute")
def set_kernel_attribute(s: Session, number: I32, value: I32, kernel: int, device: I32) -> None:
    """Set an attribute of a kernel."""
    known_device(device)
    set_attribute(s, s.get(kernel, Function), number, value)


# -- occupancy ----------------------------------------------------------------------------------


def blocks_per_sm(s: Session, function: Function, threads: int, smem: int) -> int:
    """Blocks of a kernel that an SM holds: by threads, shared memory, and registers that are fixed.

    Raises:
        CudaError: no block has so many threads.
    """
    if not 0 < threads <= attribute(s, THREADS_PER_BLOCK):
        raise CudaError(Status.INVALID_VALUE, f"a block of {threads} threads")
    kernel = prepared(function)
    if threads > max_threads(function):
        return 0
    warps = -(-threads // LANES)
    limits = [attribute(s, BLOCKS_PER_SM), attribute(s, THREADS_PER_SM) // (warps * LANES)]
    bytes_needed = smem + kernel.static_smem + SMEM_RESERVED
    limits.append(attribute(s, SMEM_PER_SM) // bytes_needed)
    if kernel.entry_registers:
        limits.append(REGISTER_FILE // (kernel.entry_registers * warps * LANES))
    return min(limits)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor",
       "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")  # fmt: skip
def active_blocks(s: Session, out: int, function: int, threads: I32, smem: int) -> None:
    """Give the blocks that an SM holds."""
    s.program.put(out, "i", blocks_per_sm(s, s.get(function, Function), threads, smem))


def best_block(s: Session, function: Function, smem_of: int, smem: int, limit: int) -> int:
    """Threads of the largest block that fills an SM best.

    Args:
        s: the session.
        function: the kernel.
        smem_of: function of the program from threads to bytes of shared memory, or null.
        smem: the bytes where there is no such function.
        limit: the most threads, or 0.
    """
    most = min(max_threads(function), limit or 1024)
    best, chosen = 0, 0
    for threads in range(most // LANES * LANES or most, 0, -LANES):
        need = s.program.call(smem_of, threads) if smem_of else smem
        filled = threads * blocks_per_sm(s, function, threads, need)
        if filled > best:
            best, chosen = filled, threads
    return chosen


@entry("cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxPotentialBlockSizeWithFlags")
def potential_block(s: Session, *words: int) -> None:
    """Give the best block, and the grid that fills the device with it."""
    grid, block, handle, smem_of, smem, limit = words[:6]
    function = s.get(handle, Function)
    threads = best_block(s, function, smem_of, smem, limit & 0xFFFFFFFF)
    need = s.program.call(smem_of, threads) if smem_of else smem
    s.program.put(block, "i", threads)
    s.program.put(grid, "i", attribute(s, 16) * blocks_per_sm(s, function, threads, need))


@entry("cuOccupancyAvailableDynamicSMemPerBlock")
def available_smem(s: Session, out: int, function: int, blocks: I32, _threads: I32) -> None:
    """Give the shared memory that is left for each of some blocks of an SM."""
    static = prepared(s.get(function, Function)).static_smem + SMEM_RESERVED
    left = attribute(s, SMEM_PER_SM) // max(blocks, 1) - static
    s.program.put(out, "Q", max(min(left, attribute(s, SMEM_PER_BLOCK)), 0))
