"""What Triton asks of a driver (`triton.backends.driver.DriverBase`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..host.callbacks import ELEMENT_NAMES
from ..host.device_model import DeviceModel
from ..layouts.im2col import Im2colMap, pixel_box
from ..layouts.swizzle import TmaSwizzle
from ..layouts.tensor_map import TensorMap
from .clock import Clock, Interface
from .launcher import Launcher

L2_PROMOTION_128B = 2
REGISTERS, THREADS = 255, 1024
"""Most of a thread and of a CTA."""


@dataclass(frozen=True)
class _Described:
    """A tensor map in Triton's words, by Triton's and the driver's codes.

    Attributes:
        block: extents of the box; of an im2col map pixels per column, channels per pixel.
        shape, strides: of the tensor, in elements, outermost dimension first, like `block`.
        padding: 1 fills with NaN.
    """

    address: int
    swizzle: int
    element_bytes: int
    element: int
    block: Sequence[int]
    shape: Sequence[int]
    strides: Sequence[int]
    padding: int

    def tensor_map(self, box: tuple[int, ...], steps: tuple[int, ...] = ()) -> TensorMap:
        """The map, with a box and steps innermost first.

        Raises:
            NotImplementedError: a type or swizzle whose code in the descriptor is unknown.
        """
        if not 0 <= self.element < len(ELEMENT_NAMES) or self.swizzle not in set(TmaSwizzle):
            raise NotImplementedError(
                f"tensor map of type {self.element} with swizzle {self.swizzle}"
            )
        return TensorMap(
            element=ELEMENT_NAMES[self.element],
            address=self.address,
            sizes=tuple(reversed(self.shape)),
            strides=tuple(self.element_bytes * stride for stride in reversed(self.strides[:-1])),
            box=box,
            element_strides=steps,
            swizzle=TmaSwizzle(self.swizzle),
            l2=L2_PROMOTION_128B,
            nan_fill=self.padding == 1,
        )


class Utils:
    """Functions over binaries, device properties and tensor maps."""

    def __init__(self, device: DeviceModel) -> None:
        self._device = device

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, threads): the PTX is run, not the binary."""
        return object(), name, REGISTERS, 0, THREADS

    def unload_module(self, module: object) -> None:
        """Nothing is held."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Properties that Triton's compiler and benchmarks read; clocks in kHz."""
        return {
            "max_shared_mem": self._device.shared_memory_per_block,
            "max_num_regs": 65536,
            "multiprocessor_count": self._device.sm_count,
            "warpSize": 32,
            "sm_clock_rate": 1_900_000,
            "mem_clock_rate": 3_996_000,
            "mem_bus_width": 8192,
        }

    def set_printf_fifo_size(self, size: int) -> None:
        """No text is dropped here, whatever the size."""

    def cuOccupancyMaxActiveClusters(self, function: object, shared: int, size: int) -> int:
        """Clusters of `size` CTAs that run at once."""
        return self._device.max_active_clusters(size)

    def fill_tma_descriptor_tiled(self, *described: Any) -> bytes:
        """A tensor map of the fields of `_Described`.

        Raises:
            TensorMapRefused: cuTensorMapEncodeTiled refuses it.
            NotImplementedError: a type or swizzle whose code in the descriptor is unknown.
        """
        given = _Described(*described)
        return given.tensor_map(tuple(reversed(given.block))).encode()

    fill_tma_descriptor = fill_tma_descriptor_tiled
    """Its name before Triton 3.8."""

    def fill_tma_descriptor_im2col(self, *described: Any) -> bytes:
        """An im2col tensor map: then lower corner, upper corner and traversal strides follow.

        Raises:
            TensorMapRefused: cuTensorMapEncodeIm2col refuses it.
            NotImplementedError: a type or swizzle whose code in the descriptor is unknown.
        """
        given = _Described(*described[:-3])
        lower, upper, steps = (tuple(reversed(numbers)) for numbers in described[-3:])
        tensor = given.tensor_map(pixel_box(given.block[1], len(given.shape)), steps)
        return Im2colMap(tensor, lower, upper, given.block[0]).encode()


class Driver:
    """The virtual device, as Triton's `driver.set_active` takes it.

    Attributes:
        clock: time of launches, and the report of the latest one.
    """

    def __init__(self, capability: int, device: DeviceModel) -> None:
        self.clock = Clock()
        self.utils = Utils(device)
        self.launcher_cls = functools.partial(Launcher, self.clock)
        self._capability = capability

    @classmethod
    def is_active(cls) -> bool:
        """Always: no GPU is needed."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The launcher here packs by Triton's own type names."""
        return ty

    def get_current_target(self) -> Any:
        """What Triton compiles for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._capability, 32)

    def get_active_torch_device(self) -> Any:
        """Where tensors live: the CPU, called "cuda" where that is put into host memory."""
        import torch

        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        """(major, minor)."""
        return divmod(self._capability, 10)

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one device."""

    def get_current_stream(self, device: object = None) -> int:
        """The default stream; launches end before they return."""
        return 0

    def get_device_interface(self) -> Interface:
        """Events and synchronisation for benchmarks, in time that launches took here."""
        return Interface(self.clock)

    def get_benchmarker(self) -> Callable[..., float | list[float]]:
        """What the autotuner times with: predictions of the clocked machine."""
        return self.clock.bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Benchmarks clear caches with it; there are none."""
        import torch

        return torch.zeros(1)

    def clear_cache(self, cache: object) -> None:
        """No caches are modelled."""

    def assemble_tensormap_to_arg(self, tensormaps_info: object, args: Any) -> Any:
        """Arguments as they are."""
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: object) -> Any:
        """Zeroed memory of the host, bytes."""
        import torch

        return torch.zeros(size, dtype=torch.int8)
