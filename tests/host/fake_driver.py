"""A stand-in for ``cuda.bindings.driver``: real types, recorded calls, no device."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import driver as real

from fa4_cute.plan.facts.tensor_map_bits import TENSOR_MAP_BYTES

SUCCESS = real.CUresult.CUDA_SUCCESS
KERNEL_HANDLE = 0x1234


@dataclass
class FakeDriver:
    """Records what the launcher asks for.

    Attributes:
        capability: compute capability of every device.
        num_sms: multiprocessors of the devices, by index.
        sizes: bytes of each kernel parameter, to read them back from the launch.
        failing: name of the call that fails, or "".
    """

    capability: tuple[int, int] = (10, 0)
    num_sms: tuple[int, ...] = (148, 160)
    sizes: tuple[int, ...] = ()
    failing: str = ""
    questions: list[tuple[Any, int]] = field(default_factory=list)
    images: list[bytes] = field(default_factory=list)
    attributes: list[tuple[Any, int, int]] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    maps: list[tuple[Any, ...]] = field(default_factory=list)
    memory: list[tuple[Any, ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)

    def _status(self, call: str) -> Any:
        return real.CUresult.CUDA_ERROR_INVALID_VALUE if call == self.failing else SUCCESS

    def cuGetErrorString(self, status: Any) -> tuple[Any, bytes]:
        return SUCCESS, b"invalid argument"

    def cuDeviceGet(self, index: int) -> tuple[Any, Any]:
        return SUCCESS, real.CUdevice(index)

    def cuDeviceGetAttribute(self, kind: Any, device: Any) -> tuple[Any, int]:
        kinds = real.CUdevice_attribute
        self.questions.append((kind, int(device)))
        if kind == kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return self._status("cuDeviceGetAttribute"), self.num_sms[int(device)]
        major = kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        return SUCCESS, self.capability[0 if kind == major else 1]

    def cuLibraryLoadData(self, image: bytes, *options: Any) -> tuple[Any, Any]:
        self.images.append(image)
        return self._status("cuLibraryLoadData"), real.CUlibrary(1)

    def cuLibraryGetKernel(self, library: Any, name: bytes) -> tuple[Any, Any]:
        return self._status("cuLibraryGetKernel"), real.CUkernel(KERNEL_HANDLE)

    def cuKernelSetAttribute(self, kind: Any, value: int, kernel: Any, device: Any) -> tuple[Any]:
        self.attributes.append((kind, value, int(device)))
        return (self._status("cuKernelSetAttribute"),)

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[Any, Any]:
        self.maps.append(arguments)
        made = real.CUtensorMap()
        ctypes.memset(int(made.getPtr()), len(self.maps), TENSOR_MAP_BYTES)
        return self._status("cuTensorMapEncodeTiled"), made

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, Any]:
        self.memory.append(("mode", mode))
        return SUCCESS, real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

    def cuMemAlloc(self, size: int) -> tuple[Any, Any]:
        self.memory.append(("alloc", size))
        return self._status("cuMemAlloc"), real.CUdeviceptr(1 << 40)

    def cuStreamCreate(self, flags: Any) -> tuple[Any, Any]:
        self.memory.append(("stream", flags))
        return SUCCESS, real.CUstream(0x99)

    def cuMemsetD8Async(self, at: Any, value: int, size: int, stream: Any) -> tuple[Any]:
        self.memory.append(("set", int(at), value, size, int(stream)))
        return (SUCCESS,)

    def cuStreamSynchronize(self, stream: Any) -> tuple[Any]:
        self.memory.append(("wait", int(stream)))
        return (SUCCESS,)

    def cuStreamDestroy(self, stream: Any) -> tuple[Any]:
        self.memory.append(("destroy", int(stream)))
        return (SUCCESS,)

    def cuLaunchKernelEx(self, config: Any, function: Any, params: int, extra: int) -> tuple[Any]:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(params)
        values = [ctypes.string_at(p, n) for p, n in zip(pointers, self.sizes, strict=True)]
        clusters = [
            (a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z)
            for a in config.attrs
            if a.id == real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        ]
        self.launches.append(
            {
                "grid": (config.gridDimX, config.gridDimY, config.gridDimZ),
                "block": (config.blockDimX, config.blockDimY, config.blockDimZ),
                "smem": config.sharedMemBytes,
                "stream": int(config.hStream),
                "clusters": clusters,
                "attributes": config.numAttrs,
                "function": int(function),
                "params": values,
            }
        )
        return (self._status("cuLaunchKernelEx"),)
