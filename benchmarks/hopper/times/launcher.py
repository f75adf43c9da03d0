"""Makes recorded launches on torch's current stream, through the driver that torch has loaded."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.hopper.times.recorded import Recorded

MAX_DYNAMIC_SMEM, CLUSTER_DIMENSION = 8, 4
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""
MAP_ALIGNMENT = 64
"""Alignment of a tensor map in memory, bytes (CUDA driver API, ``CUtensorMap``)."""


class LaunchAttribute(ct.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = [("id", ct.c_uint), ("pad", ct.c_uint), ("value", ct.c_uint * 16)]


class LaunchConfig(ct.Structure):
    """`CUlaunchConfig`."""

    _fields_ = [
        ("grid", ct.c_uint * 3), ("block", ct.c_uint * 3), ("smem", ct.c_uint),
        ("stream", ct.c_void_p), ("attributes", ct.POINTER(LaunchAttribute)), ("count", ct.c_uint),
    ]  # fmt: skip


class DriverError(RuntimeError):
    """A call of the driver failed."""


class Launcher:
    """Loads the cubins of a folder into the current context."""

    def __init__(self, folder: Path) -> None:
        """Nothing is loaded yet."""
        self._folder = folder
        self._cu = ct.CDLL("libcuda.so.1")
        self._functions: dict[tuple[str, str], ct.c_void_p] = {}

    def _check(self, status: int, call: str) -> None:
        if status:
            name = ct.c_char_p()
            self._cu.cuGetErrorName(status, ct.byref(name))
            raise DriverError(f"{call}: {(name.value or b'?').decode()}")

    def _function(self, launch: Recorded) -> ct.c_void_p:
        key = (launch.image, launch.kernel)
        if key not in self._functions:
            module, function = ct.c_void_p(), ct.c_void_p()
            image = (self._folder / launch.image).read_bytes()
            self._check(self._cu.cuModuleLoadData(ct.byref(module), image), "cuModuleLoadData")
            name = launch.kernel.encode()
            status = self._cu.cuModuleGetFunction(ct.byref(function), module, name)
            self._check(status, "cuModuleGetFunction")
            self._functions[key] = function
        function = self._functions[key]
        status = self._cu.cuFuncSetAttribute(function, MAX_DYNAMIC_SMEM, launch.smem_bytes)
        self._check(status, "cuFuncSetAttribute")
        return function

    def prepared(
        self, launch: Recorded, addresses: Mapping[str, int]
    ) -> Callable[[int], None]:  # fmt: skip
        """A function of a stream's handle that makes the launch on tensors at `addresses`.

        Raises:
            DriverError: the driver refuses the cubin, or a launch.
        """
        function = self._function(launch)
        pointers, kept = _parameters(launch.patched(addresses))
        attribute = LaunchAttribute(id=CLUSTER_DIMENSION)
        attribute.value[0], attribute.value[1], attribute.value[2] = launch.cluster
        clusters = launch.cluster != (1, 1, 1)
        config = LaunchConfig(
            (ct.c_uint * 3)(*launch.grid), (ct.c_uint * 3)(*launch.block), launch.smem_bytes, None,
            ct.pointer(attribute) if clusters else None, int(clusters),
        )  # fmt: skip

        def run(stream: int) -> None:
            config.stream = stream
            status = self._cu.cuLaunchKernelEx(ct.byref(config), function, pointers, None)
            self._check(status, "cuLaunchKernelEx")

        run.kept = (kept, attribute)  # type: ignore[attr-defined]  # keeps them alive
        return run


def _parameters(values: tuple[bytes, ...]) -> tuple[ct.Array[ct.c_void_p], list[object]]:
    """An array of the parameters' addresses, and what keeps them alive."""
    kept: list[object] = []
    places = []
    for raw in values:
        space = ct.create_string_buffer(len(raw) + MAP_ALIGNMENT)
        place = ct.addressof(space) + -ct.addressof(space) % MAP_ALIGNMENT
        ct.memmove(place, raw, len(raw))
        kept.append(space)
        places.append(place)
    return (ct.c_void_p * len(places))(*places), kept
