"""Launch on a CUDA device through cuda-python, on torch's current stream.

The library is loaded once per kernel and stays loaded: it belongs to no context
(``cuLibraryLoadData``, CUDA driver API), so one handle serves all devices of the process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ...plan.facts.architectures import ARCHITECTURES
from ...plan.facts.hardware import SM100A, SMEM_PER_SM
from ...plan.facts.tensor_map_bits import TENSOR_MAP_BYTES, TensorMapFields
from ...plan.launch.launch import LaunchPlan
from ..ask.architecture import capability_of
from ..choose.refusals import Refusal, device_refusal
from ..compile.compiler import CompiledArtifact
from .blocks import Block, Blocks
from .launch import Launched, PackedLaunch

FAMILY_ARCH: Final = "sm_100f"
"""Target that all of compute capability 10.x shares (PTX ISA, ".target", family-specific)."""

MOST_SHARED: Final = 100
"""Percent of an SM's memory (CUDA driver API, ``CU_SHAREDMEM_CARVEOUT_MAX_SHARED``)."""


Image = Callable[[CompiledArtifact, tuple[int, int]], bytes]


class CudaError(RuntimeError):
    """A call of the CUDA driver failed; the message names the call and the driver's reason."""


def refusal_of(tensor: Any, arch: str | None = None) -> Refusal | None:
    """Return why the device of ``tensor`` cannot run kernels for ``arch``, or None."""
    kind = tensor.device.type
    if kind != "cuda":
        return device_refusal(kind)
    torch = sys.modules["torch"]
    index = tensor.device.index
    return device_refusal(kind, capability_of(tensor), torch.cuda.get_device_name(index), arch)


class CudaLauncher:
    """Loads kernels and launches them.

    Args:
        driver: ``cuda.bindings.driver``, or a stand-in with the same functions.
        image: (kernel, compute capability) -> what the driver loads.
    """

    def __init__(self, driver: Any, image: Image | None = None) -> None:
        """Start with nothing loaded."""
        self._driver = driver
        self._image = image or image_for
        self._kernels: dict[tuple[str, bytes], Any] = {}
        self._ready: dict[tuple[str, bytes, int], Any] = {}
        self._num_sms: dict[int, int] = {}
        self._lock = threading.Lock()

    def launch(
        self, artifact: CompiledArtifact, packed: PackedLaunch, device: int, stream: int
    ) -> None:
        """Enqueue one launch on ``stream`` of ``device``; the device must be the current one.

        Args:
            artifact: compiled kernel.
            packed: grid, block, cluster, shared memory and packed parameters.
            device: index of the CUDA device.
            stream: handle of the CUDA stream.

        Raises:
            CudaError: the driver refused a call.
        """
        configure, enqueue = self._ready_for(artifact, packed.plan, device)
        block = Blocks(artifact.params, packed.params, configure).take()
        enqueue(block, stream)

    def repeat(
        self, device: int
    ) -> Callable[[Launched, Any], tuple[Callable[[], Any], Callable[[Block, Any], None]]]:
        """Return what makes of a launch on ``device`` how its blocks are configured and enqueued.

        They go to torch's current stream of the device.
        """
        import torch

        stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", current_stream)
        current = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)

        def ready(
            launched: Launched, _: Any
        ) -> tuple[Callable[[], Any], Callable[[Block, Any], None]]:
            artifact, _, packed = launched
            configure, enqueue = self._ready_for(artifact, packed.plan, device)

            def launch(block: Block, _: Any) -> None:
                if current() == device:
                    enqueue(block, stream_of(device))
                else:
                    with torch.cuda.device(device):
                        enqueue(block, stream_of(device))

            return configure, launch

        return ready

    def _ready_for(
        self, artifact: CompiledArtifact, plan: LaunchPlan, device: int
    ) -> tuple[Callable[[], Any], Callable[[Block, int], None]]:
        """Load a kernel; return what makes its configurations, and what enqueues a block."""
        launch_kernel = self._driver.cuLaunchKernelEx
        function = self._driver.CUfunction(int(self._kernel(artifact, device)))

        def enqueue(block: Block, stream: int) -> None:
            if block.stream != stream:
                block.config.hStream = block.stream = stream
            # The driver copies the parameters during the call, so the block can be used again.
            result = launch_kernel(block.config, function, block.pointers, 0)
            if result[0] != 0:
                self._check("cuLaunchKernelEx", result)

        return partial(self._configure, plan), enqueue

    def _configure(self, plan: LaunchPlan) -> Any:
        """Return the launch configuration of ``plan``, without a stream."""
        config = self._driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = plan.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = plan.block
        config.sharedMemBytes = plan.smem_bytes
        attributes = [] if plan.cluster == (1, 1, 1) else [self._cluster(plan.cluster)]
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config

    def encode(self, fields: TensorMapFields) -> bytes:
        """Return the 128 bytes of a tensor map as the driver makes them.

        Raises:
            CudaError: the driver refused the arguments.
        """
        d = self._driver
        types, swizzles = d.CUtensorMapDataType, d.CUtensorMapSwizzle
        promotions, fills = d.CUtensorMapL2promotion, d.CUtensorMapFloatOOBfill
        (tensor_map,) = self._check(
            "cuTensorMapEncodeTiled",
            d.cuTensorMapEncodeTiled(
                getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{fields.element_type}"),
                len(fields.dims),
                fields.address,
                [d.cuuint64_t(n) for n in fields.dims],
                [d.cuuint64_t(n) for n in fields.strides],
                [d.cuuint32_t(n) for n in fields.box],
                [d.cuuint32_t(n) for n in fields.element_strides[: len(fields.dims)]],
                d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzles(fields.swizzle),
                promotions(fields.l2_promotion),
                fills(int(fields.nan_fill)),
            ),
        )
        return ctypes.string_at(int(tensor_map.getPtr()), TENSOR_MAP_BYTES)

    def zeros(self, size: int) -> int:
        """Return the address of ``size`` bytes on the current device that are 0; they are kept.

        Even while streams are captured into graphs: nothing here becomes part of one.

        Raises:
            CudaError: the driver refused a call.
        """
        driver = self._driver
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        exchange = driver.cuThreadExchangeStreamCaptureMode
        (mode,) = self._check("cuThreadExchangeStreamCaptureMode", exchange(relaxed))
        try:
            (memory,) = self._check("cuMemAlloc", driver.cuMemAlloc(size))
            kind = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            (stream,) = self._check("cuStreamCreate", driver.cuStreamCreate(kind))
            self._check("cuMemsetD8Async", driver.cuMemsetD8Async(memory, 0, size, stream))
            self._check("cuStreamSynchronize", driver.cuStreamSynchronize(stream))
            self._check("cuStreamDestroy", driver.cuStreamDestroy(stream))
        finally:
            self._check("cuThreadExchangeStreamCaptureMode", exchange(mode))
        return int(memory)

    def _kernel(self, artifact: CompiledArtifact, device: int) -> Any:
        """Return the loaded kernel, made ready for ``device`` on first use."""
        key = (artifact.kernel_name, artifact.cubin, device)
        kernel = self._ready.get(key)
        if kernel is None:
            with self._lock:
                image = self._image(artifact, self._capability(device))
                kernel = self._load(artifact.kernel_name, image)
                self._allow_shared_memory(kernel, artifact.smem_bytes, device)
                self._ready[key] = kernel
        return kernel

    def _load(self, name: str, image: bytes) -> Any:
        kernel = self._kernels.get((name, image))
        if kernel is None:
            call = self._driver.cuLibraryLoadData
            (library,) = self._check("cuLibraryLoadData", call(image, [], [], 0, [], [], 0))
            call = self._driver.cuLibraryGetKernel
            (kernel,) = self._check("cuLibraryGetKernel", call(library, name.encode()))
            self._kernels[name, image] = kernel
        return kernel

    def _allow_shared_memory(self, kernel: Any, size: int, device: int) -> None:
        driver = self._driver
        kinds = driver.CUfunction_attribute
        wanted = {kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: size}
        if 0 < size <= SMEM_PER_SM // 2:
            # Several CTAs share an SM where its memory is shared memory rather than L1.
            wanted[kinds.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = MOST_SHARED
        for attribute, value in wanted.items():
            result = driver.cuKernelSetAttribute(attribute, value, kernel, self._device(device))
            self._check("cuKernelSetAttribute", result)

    def num_sms(self, device: int) -> int:
        """Return the multiprocessors of ``device``; the driver is asked once per device.

        Persistent CTAs need the number to fill the device, not to be right: a CTA that has to
        wait for an SM still takes the query tiles that are dealt to it.

        Raises:
            CudaError: the driver refused the question.
        """
        found = self._num_sms.get(device)
        if found is None:
            found = self._attribute("MULTIPROCESSOR_COUNT", device)
            self._num_sms[device] = found
        return found

    def _capability(self, device: int) -> tuple[int, int]:
        major, minor = (f"COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR"))
        return self._attribute(major, device), self._attribute(minor, device)

    def _attribute(self, name: str, device: int) -> int:
        kind = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        result = self._driver.cuDeviceGetAttribute(kind, self._device(device))
        (value,) = self._check("cuDeviceGetAttribute", result)
        return int(value)

    def _device(self, index: int) -> Any:
        (handle,) = self._check("cuDeviceGet", self._driver.cuDeviceGet(index))
        return handle

    def _cluster(self, cluster: tuple[int, int, int]) -> Any:
        driver = self._driver
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value = attribute.value.clusterDim
        value.x, value.y, value.z = cluster
        return attribute

    def _check(self, call: str, result: tuple[Any, ...]) -> tuple[Any, ...]:
        status, *values = result
        if int(status) == 0:
            return tuple(values)
        _, text = self._driver.cuGetErrorString(status)
        reason = text.decode() if isinstance(text, bytes) else str(text)
        raise CudaError(f"{call} failed: {getattr(status, 'name', status)} ({reason})")


def current_stream(device: int) -> int:
    """Return the handle of torch's current stream, in the public way."""
    return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)


def image_for(artifact: CompiledArtifact, capability: tuple[int, int]) -> bytes:
    """Return the cubin where it runs, and PTX for the family on its other members.

    Only Blackwell has such a family. The driver compiles that PTX when it is loaded. ptxas 13.0
    accepts it for sm_103a; it has not run on hardware.
    """
    runs = capability == ARCHITECTURES[artifact.arch].cubin
    return artifact.cubin if runs else family_ptx(artifact.ptx)


def family_ptx(ptx: str) -> bytes:
    """Return the PTX for the whole 10.x family, as the driver wants it: ending in a zero byte.

    Raises:
        ValueError: when the PTX is not for Blackwell.
    """
    directive = f".target {SM100A}"
    if directive not in ptx:
        raise ValueError(f"ptx: expected the directive {directive!r}")
    return ptx.replace(directive, f".target {FAMILY_ARCH}", 1).encode() + b"\0"


_launcher: CudaLauncher | None = None


def launcher() -> CudaLauncher:
    """Return the process's launcher; imports cuda-python on first use.

    Raises:
        ImportError: cuda-python is not installed.
    """
    global _launcher
    if _launcher is None:
        from cuda.bindings import driver

        _launcher = CudaLauncher(driver)
    return _launcher
