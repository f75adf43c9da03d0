"""The fake CUDA runtime: what the shim's symbols do.

One process has one runtime and one device.  A launch is executed before the call returns, so
streams need no model.  Calls arrive from jitted host code through ctypes, where an exception cannot
travel: it is kept in ``pending``, the call answers a CUDA error code, and the DSL's own error is
replaced by the kept one on its way out (dsl_hooks.py).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..launch_request import CLUSTER_DIMENSION, LaunchRequest
from ..ptx.parser import parse
from ..ptx.program import Param
from .device_model import DeviceModel
from .images import PtxCatalogue

SUCCESS = 0
INVALID_VALUE = 1
NOT_SUPPORTED = 801
LAUNCH_FAILURE = 719

LAUNCH_CONFIG = struct.Struct("<3I3IQQQI4x")
LAUNCH_ATTRIBUTE_BYTES = 72
ATTRIBUTE_VALUE_OFFSET = 8
MAX_DYNAMIC_SMEM = 8
DEFAULT_DYNAMIC_SMEM = 48 * 1024


class UnsupportedCallError(RuntimeError):
    """The program called a CUDA function that the virtual device does not model."""


class LaunchError(RuntimeError):
    """A launch that a real device would refuse."""


@dataclass
class Kernel:
    """A kernel of a loaded library and the attributes the program has set on it."""

    name: str
    ptx: str
    params: tuple[Param, ...]
    attributes: dict[int, int] = field(default_factory=dict)


Launcher = Callable[[LaunchRequest], Any]


class Runtime:
    """Libraries, kernels and launches of the virtual device.

    Args:
        catalogue: finds the PTX of a loaded image.
        device: what the device answers about itself.
        launcher: executes a launch and returns its report.
    """

    def __init__(self, catalogue: PtxCatalogue, device: DeviceModel, launcher: Launcher) -> None:
        self.catalogue = catalogue
        self.device = device
        self.launcher = launcher
        self.last_report: Any = None
        self.pending: BaseException | None = None
        self._libraries: dict[int, dict[str, Kernel]] = {}
        self._kernels: dict[int, Kernel] = {}
        self._memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._next_handle = 0x5A100000

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Replace an exception of the body by the one that made a call of the body fail here."""
        self.pending = None
        try:
            yield
        except Exception as error:
            cause, self.pending = self.pending, None
            if cause is None:
                raise
            raise cause from error
        cause, self.pending = self.pending, None
        if cause is not None:  # the program ignored the failure
            raise cause

    def _handle(self) -> int:
        self._next_handle += 16
        return self._next_handle

    # -- libraries and kernels --------------------------------------------------------------

    def load_library(self, image: int) -> int:
        """A handle of the library whose cubin lies at host address ``image``.

        Raises:
            UnknownImageError: the image's PTX is not known.
            PtxError: something in the PTX is not understood.
        """
        ptx = self.catalogue.lookup(image)
        kernels = {
            name: Kernel(name, ptx, tuple(entry.params))
            for name, entry in parse(ptx, bodies=False).kernels.items()
        }
        handle = self._handle()
        self._libraries[handle] = kernels
        return handle

    def unload_library(self, library: int) -> None:
        """Forget a library; its kernels' handles stay valid until the process ends."""
        self._libraries.pop(library, None)

    def get_kernel(self, library: int, name: str) -> int:
        """A handle of the named entry.

        Raises:
            LaunchError: unknown library or entry.
        """
        kernels = self._libraries.get(library)
        if kernels is None:
            raise LaunchError(f"no library with handle {library:#x} is loaded")
        kernel = kernels.get(name)
        if kernel is None:
            raise LaunchError(f"no kernel {name!r} in the library; it has {sorted(kernels)}")
        handle = self._handle()
        self._kernels[handle] = kernel
        return handle

    def kernel(self, handle: int) -> Kernel:
        """The kernel behind a handle.

        Raises:
            LaunchError: the handle was not given out here.
        """
        kernel = self._kernels.get(handle)
        if kernel is None:
            raise LaunchError(f"no kernel with handle {handle:#x}")
        return kernel

    # -- memory -----------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Device memory of ``size`` bytes, aligned to 256 as cudaMalloc aligns it."""
        buffer = (ctypes.c_char * (size + 256))()
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self._memory[address] = buffer
        return address

    def release(self, address: int) -> None:
        """Free memory given by :meth:`allocate`; a null pointer is accepted."""
        if address and self._memory.pop(address, None) is None:
            raise LaunchError(f"free of {address:#x}, which was not allocated here")

    # -- launches ---------------------------------------------------------------------------

    def launch(self, config: int, kernel: int, args: int) -> None:
        """Execute a launch described by runtime structures at the given host addresses."""
        self.last_report = self.launcher(self.read_request(config, self.kernel(kernel), args))

    def read_request(self, config: int, kernel: Kernel, args: int) -> LaunchRequest:
        """Decode ``cudaLaunchConfig_t`` and the argument pointers into a request.

        Raises:
            LaunchError: more dynamic shared memory than the program asked for or the device has.
        """
        fields = LAUNCH_CONFIG.unpack(ctypes.string_at(config, LAUNCH_CONFIG.size))
        smem, _stream, attributes_at, count = fields[6:]
        attributes = read_attributes(attributes_at, count)
        cluster = attributes.get(CLUSTER_DIMENSION)
        self._check_smem(kernel, smem)
        return LaunchRequest(
            ptx=kernel.ptx,
            kernel=kernel.name,
            grid=fields[0:3],
            block=fields[3:6],
            cluster=struct.unpack_from("<3I", cluster) if cluster else (1, 1, 1),
            smem_bytes=smem,
            params=read_params(args, kernel.params),
            attributes=attributes,
        )

    def _check_smem(self, kernel: Kernel, smem: int) -> None:
        allowed = kernel.attributes.get(MAX_DYNAMIC_SMEM, DEFAULT_DYNAMIC_SMEM)
        if smem > min(max(allowed, DEFAULT_DYNAMIC_SMEM), self.device.shared_memory_per_block):
            raise LaunchError(
                f"{kernel.name}: {smem} bytes of dynamic shared memory; the program allowed itself "
                f"{allowed} and the device has {self.device.shared_memory_per_block} per block"
            )

    def assertion_failed(self, code: int) -> None:
        """A call that the program takes for granted failed: keep the cause, or make one."""
        if self.pending is None:
            self.pending = LaunchError(f"a CUDA call of the program failed with error {code}")

    def describe(self, code: int) -> str:
        """The cause of the latest failure, in one text."""
        if self.pending is None:
            return f"CUDA error {code} from sm100sim"
        return f"{type(self.pending).__name__}: {self.pending}"


def read_attributes(address: int, count: int) -> Mapping[int, bytes]:
    """``cudaLaunchAttribute`` records (72 bytes each) as id -> the value's 64 bytes."""
    found = {}
    for index in range(count):
        record = ctypes.string_at(address + index * LAUNCH_ATTRIBUTE_BYTES, LAUNCH_ATTRIBUTE_BYTES)
        (identifier,) = struct.unpack_from("<I", record)
        found[identifier] = record[ATTRIBUTE_VALUE_OFFSET:]
    return found


def read_params(args: int, params: tuple[Param, ...]) -> tuple[bytes, ...]:
    """The kernel's arguments: ``args[i]`` points at as many bytes as parameter i has."""
    if not params:
        return ()
    pointers = struct.unpack(f"<{len(params)}Q", ctypes.string_at(args, 8 * len(params)))
    return tuple(
        ctypes.string_at(pointer, param.size)
        for pointer, param in zip(pointers, params, strict=True)
    )
