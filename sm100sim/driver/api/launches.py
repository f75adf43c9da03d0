"""Launches (CUDA Driver API, "Execution Control")."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...host.runtime import ATTRIBUTE_VALUE_OFFSET, LAUNCH_ATTRIBUTE_BYTES
from ...launch_request import CLUSTER_DIMENSION, COOPERATIVE, Dim3, LaunchRequest
from ..base.codes import CudaError, Status
from ..base.objects import Function, Work
from ..base.session import KERNEL_NODE, Session
from ..base.table import entry
from .device import attribute
from .functions import (
    LARGE_CLUSTER,
    LARGEST_CLUSTER,
    PORTABLE_CLUSTER,
    blocks_per_sm,
    dynamic_limit,
    get_attribute,
    placed_of,
    required_cluster,
)

_CONFIG: Final = "6II4xQQI"
BUFFER_END, BUFFER_POINTER, BUFFER_SIZE = 0, 1, 2
"""Names in the `extra` of a launch."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is launched; `smem` in bytes."""

    grid: Dim3
    block: Dim3
    smem: int = 0
    stream: int = 0
    attributes: Mapping[int, bytes] | None = None

    @property
    def cluster(self) -> Dim3 | None:
        """The cluster that the attributes say."""
        raw = (self.attributes or {}).get(CLUSTER_DIMENSION)
        return None if raw is None else struct.unpack_from("<3I", raw)


def dims(words: tuple[int, ...] | list[int]) -> Dim3:
    """Three words as extents."""
    x, y, z = (word & 0xFFFFFFFF for word in words)
    return x, y, z


def read_attributes(s: Session, address: int, count: int) -> dict[int, bytes]:
    """Attributes of a launch: id -> the 64 bytes of the value."""
    found = {}
    raw = s.program.read(address, count * LAUNCH_ATTRIBUTE_BYTES)
    for at in range(0, len(raw), LAUNCH_ATTRIBUTE_BYTES):
        (identifier,) = struct.unpack_from("<I", raw, at)
        found[identifier] = raw[at + ATTRIBUTE_VALUE_OFFSET : at + LAUNCH_ATTRIBUTE_BYTES]
    return found


def read_shape(s: Session, config: int, layout: str = _CONFIG) -> Shape:
    """A `CUlaunchConfig`, or the runtime's, which has another layout."""
    words = s.program.read_words(config, layout)
    attributes = read_attributes(s, words[8], words[9])
    return Shape(dims(words[:3]), dims(words[3:6]), words[6], words[7], attributes)


def read_arguments(s: Session, function: Function, pointers: int, extra: int) -> tuple[bytes, ...]:
    """The kernel's arguments: each pointed at, or all in a buffer."""
    params = function.kernel.params
    if pointers:
        places = s.program.read_words(pointers, f"{len(params)}Q")
        pairs = zip(places, params, strict=True)
        return tuple(s.program.read(place, param.size) for place, param in pairs)
    if not params:
        return ()
    if not extra:
        raise CudaError(Status.INVALID_VALUE, f"{function.kernel.name} has parameters, none given")
    given = dict(_pairs(s, extra))
    size = s.program.read_words(given[BUFFER_SIZE], "Q")[0]
    raw = s.program.read(given[BUFFER_POINTER], size)
    if size < params[-1].offset + params[-1].size:
        raise CudaError(Status.INVALID_VALUE, f"{size} bytes of arguments are too few")
    return tuple(raw[param.offset : param.offset + param.size] for param in params)


def _pairs(s: Session, at: int) -> list[tuple[int, int]]:
    found = []
    while (name := s.program.read_words(at, "Q")[0]) != BUFFER_END:
        found.append((name, s.program.read_words(at + 8, "Q")[0]))
        at += 16
    if {name for name, _ in found} != {BUFFER_POINTER, BUFFER_SIZE}:
        raise CudaError(Status.INVALID_VALUE, "the extra options name no buffer of arguments")
    return found


def _cluster(s: Session, function: Function, shape: Shape) -> Dim3:
    fixed = required_cluster(function)
    cluster = shape.cluster or fixed or function.cluster or (1, 1, 1)
    if fixed is not None and shape.cluster not in (None, fixed):
        what = f"cluster {shape.cluster} differs from the kernel's .reqnctapercluster {fixed}"
        raise CudaError(Status.INVALID_VALUE, what)
    most = LARGEST_CLUSTER if get_attribute(s, function, LARGE_CLUSTER) else PORTABLE_CLUSTER
    if fixed is None and cluster[0] * cluster[1] * cluster[2] > most:
        what = f"cluster {cluster} has more than {most} CTAs; the program allowed no more"
        raise CudaError(Status.INVALID_VALUE, what)
    return cluster


def launching(s: Session, handle: int, shape: Shape, pointers: int, extra: int = 0) -> Work:
    """Work that runs a kernel.

    Raises:
        CudaError: a launch that the device would refuse.
    """
    function = s.get(handle, Function)
    arguments = read_arguments(s, function, pointers, extra)
    limit = dynamic_limit(function)
    if shape.smem > limit:
        what = f"{shape.smem} bytes of dynamic shared memory; the program allowed itself {limit}"
        raise CudaError(Status.INVALID_VALUE, what)
    _check_cooperative(s, function, shape)
    try:
        request = LaunchRequest(
            ptx=function.module.ptx,
            kernel=function.kernel.name,
            grid=shape.grid,
            block=shape.block,
            cluster=_cluster(s, function, shape),
            smem_bytes=shape.smem,
            params=arguments,
            attributes=shape.attributes or {},
            placed=placed_of(function),
        )
    except ValueError as error:
        raise CudaError(Status.INVALID_VALUE, str(error)) from None

    def work() -> None:
        s.execute(request)

    return work


def _check_cooperative(s: Session, function: Function, shape: Shape) -> None:
    """Refuse a cooperative launch that does not fit onto the device at once."""
    flag = (shape.attributes or {}).get(COOPERATIVE, bytes(4))
    if any(flag[:4]):
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        room = attribute(s, 16) * blocks_per_sm(s, function, threads, shape.smem)
        if shape.grid[0] * shape.grid[1] * shape.grid[2] > room:
            raise CudaError(Status.COOPERATIVE_TOO_LARGE, f"grid {shape.grid}; {room} CTAs fit")


@entry("cuLaunchKernel")
def launch(s: Session, *words: int) -> None:
    """Launch a kernel."""
    shape = Shape(dims(words[1:4]), dims(words[4:7]), words[7] & 0xFFFFFFFF, words[8])
    s.submit(shape.stream, launching(s, words[0], shape, words[9], words[10]), KERNEL_NODE)


@entry("cuLaunchKernelEx")
def launch_ex(s: Session, config: int, function: int, pointers: int, extra: int) -> None:
    """Launch a kernel with attributes."""
    shape = read_shape(s, config)
    s.submit(shape.stream, launching(s, function, shape, pointers, extra), KERNEL_NODE)


def active_clusters(s: Session, function: Function, shape: Shape) -> int:
    """Clusters of a kernel that the device holds at once."""
    cluster = shape.cluster or required_cluster(function) or (1, 1, 1)
    threads = shape.block[0] * shape.block[1] * shape.block[2]
    size = cluster[0] * cluster[1] * cluster[2]
    return attribute(s, 16) * blocks_per_sm(s, function, threads, shape.smem) // size


@entry("cuOccupancyMaxActiveClusters")
def max_active_clusters(s: Session, out: int, function: int, config: int) -> None:
    """Give the clusters that the device holds."""
    count = active_clusters(s, s.get(function, Function), read_shape(s, config))
    s.program.put(out, "i", count)


@entry("cuOccupancyMaxPotentialClusterSize")
def potential_cluster(s: Session, out: int, function: int, _config: int) -> None:
    """Give the CTAs of the largest cluster."""
    allowed = get_attribute(s, s.get(function, Function), LARGE_CLUSTER)
    s.program.put(out, "i", LARGEST_CLUSTER if allowed else PORTABLE_CLUSTER)


@entry("cuLaunchCooperativeKernel")
def launch_cooperative(s: Session, *words: int) -> None:
    """Launch a kernel whose CTAs must all fit at once."""
    attributes = {COOPERATIVE: b"\1".ljust(64, b"\0")}
    smem, stream = words[7] & 0xFFFFFFFF, words[8]
    shape = Shape(dims(words[1:4]), dims(words[4:7]), smem, stream, attributes)
    s.submit(stream, launching(s, words[0], shape, words[9]), KERNEL_NODE)
