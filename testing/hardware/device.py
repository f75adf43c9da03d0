"""Runs micro-kernels on a CUDA device through cuda-python's driver API."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np

from testing.hardware.case import Case, MapArgs

TARGET = "sm_90a"


class DeviceError(RuntimeError):
    """A driver call failed; the message is the error's name.  The context may be lost."""


def opened() -> Device:
    """The device.

    Raises:
        SystemExit: there is none; with a line that says so.
    """
    try:
        return Device()
    except (ImportError, RuntimeError) as error:
        why = f"{type(error).__name__}: {error}".partition(". ")[0]
        raise SystemExit(f"this asks a Hopper GPU, and there is none here: {why}") from error


def _checked(result: tuple[Any, ...]) -> Any:
    code, *values = result
    if int(code) != 0:
        raise DeviceError(code.name)
    return values[0] if len(values) == 1 else values


class Device:
    """One context on device 0."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.cu = driver
        _checked(driver.cuInit(0))
        self.handle = _checked(driver.cuDeviceGet(0))
        context = _checked(driver.cuDevicePrimaryCtxRetain(self.handle))
        _checked(driver.cuCtxSetCurrent(context))
        self.pool = int(_checked(driver.cuMemAlloc(1 << 28)))

    def describe(self) -> dict[str, Any]:
        """Name of the chip and version of the driver."""
        name = _checked(self.cu.cuDeviceGetName(64, self.handle))
        version = int(_checked(self.cu.cuDriverGetVersion()))
        return {
            "device": name.split(b"\0")[0].decode(),
            "cuda_driver_api": version,
            "target": TARGET,
        }

    def _function(self, case: Case) -> Any:
        cu = self.cu
        log = bytearray(8192)
        keys = [
            cu.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
            cu.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]
        text = case.text(TARGET).encode() + b"\0"
        code, module = cu.cuModuleLoadDataEx(text, 2, keys, [log, len(log)])
        if int(code) != 0:
            raise DeviceError(
                f"{code.name}: {bytes(log).split(bytes(1))[0].decode(errors='replace')[:400]}"
            )
        function = _checked(cu.cuModuleGetFunction(module, b"k"))
        if case.smem > 48 * 1024:
            attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _checked(cu.cuFuncSetAttribute(function, attribute, case.smem))
        return module, function

    def _map(self, args: MapArgs, address: int) -> bytes:
        cu = self.cu
        rank = len(args.sizes)
        steps = args.steps or (1,) * rank
        # The binding hands an empty list over as a null pointer, which the driver refuses; with
        # rank 1 it reads no stride, so that any will do.
        strides = args.strides or (16,)
        encoded = _checked(cu.cuTensorMapEncodeTiled(
            getattr(cu.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{args.element}"), rank, address,
            [cu.cuuint64_t(x) for x in args.sizes], [cu.cuuint64_t(x) for x in strides],
            [cu.cuuint32_t(x) for x in args.box], [cu.cuuint32_t(x) for x in steps],
            cu.CUtensorMapInterleave(0), cu.CUtensorMapSwizzle(args.swizzle),
            cu.CUtensorMapL2promotion(0), cu.CUtensorMapFloatOOBfill(int(args.nan_fill)),
        ))  # fmt: skip
        words = [int(x) for x in encoded.opaque]
        return struct.pack("<16Q", *words)

    def run(self, case: Case) -> list[np.ndarray]:
        """Launch the case and return its outputs.

        Raises:
            DeviceError: the driver refused something or the kernel faulted.
        """
        cu = self.cu
        module, function = self._function(case)
        buffers = [*case.inputs, *case.outputs]
        addresses, at = [], self.pool
        for array in buffers:
            addresses.append(at)
            _checked(cu.cuMemcpyHtoD(at, array.tobytes(), array.nbytes))
            at += (array.nbytes + 4095) // 4096 * 4096 + 4096
        raw = [struct.pack("<Q", a) for a in addresses]
        raw += [self._map(m, addresses[m.buffer]) for m in case.maps]
        raw += [struct.pack("<I", n & 0xFFFFFFFF) for n in case.numbers]
        holders, pointers = [], []
        for value in raw:
            holder = np.zeros(len(value) + 64, np.uint8)
            start = -holder.ctypes.data % 64
            holder[start : start + len(value)] = np.frombuffer(value, np.uint8)
            holders.append(holder)
            pointers.append(holder.ctypes.data + start)
        params = np.array(pointers or [0], np.uint64)
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = case.grid, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = case.block, 1, 1
        config.sharedMemBytes = case.smem
        if case.cluster > 1:
            attribute = cu.CUlaunchAttribute()
            attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x = case.cluster
            attribute.value.clusterDim.y = 1
            attribute.value.clusterDim.z = 1
            config.attrs = [attribute]
            config.numAttrs = 1
        _checked(cu.cuLaunchKernelEx(config, function, params.ctypes.data, 0))
        _checked(cu.cuCtxSynchronize())
        results = []
        for array, address in list(zip(buffers, addresses, strict=True))[len(case.inputs) :]:
            out = np.empty_like(array)
            _checked(cu.cuMemcpyDtoH(out.ctypes.data, address, out.nbytes))
            results.append(out)
        _checked(cu.cuModuleUnload(module))
        return results


def digest(arrays: list[np.ndarray]) -> str:
    """Hash of outputs, to compare two runs."""
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:16]
