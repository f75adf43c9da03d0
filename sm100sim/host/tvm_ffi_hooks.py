"""Programs compiled with TVM-FFI: their calls check that a tensor is on a CUDA device.

While the simulator is active, host tensors among the arguments are handed over as tensors of CUDA
device 0 over the same memory, and a failed call raises the simulator's own exception.  TVM-FFI is
an optional package, so this is applied when the first program asks for it.
"""

from __future__ import annotations

import importlib
from typing import Any

from .device_memory import DLPACK_CPU, label_as_device_memory
from .protocol import Adjustments

CALLABLES = ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs")


def device_tensor(tensor: Any) -> Any:
    """A TVM-FFI tensor of CUDA device 0 over a host tensor's memory; others are returned as is."""
    device = getattr(tensor, "__dlpack_device__", None)
    if device is None or device()[0] != DLPACK_CPU:
        return tensor
    capsule = tensor.__dlpack__()
    label_as_device_memory(capsule)
    return importlib.import_module("tvm_ffi").from_dlpack(capsule)


def _on_device(value: Any) -> Any:
    """The value with every host tensor in it on the device; looks into tuples and lists."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_on_device, value))
    if isinstance(value, tuple | list):
        return type(value)(map(_on_device, value))
    return device_tensor(value)


def adjust_tvm_ffi(activation: Adjustments) -> None:
    """Wrap the calls of TVM-FFI programs, once per activation."""
    provider = importlib.import_module("cutlass.cutlass_dsl.tvm_ffi_provider")
    for name in CALLABLES:
        owner = getattr(provider, name)
        if not hasattr(owner.__call__, "_for_sm100sim"):
            _wrap_call(activation, owner)


def _wrap_call(activation: Adjustments, owner: Any) -> None:
    original = owner.__dict__["__call__"]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        moved = {name: _on_device(value) for name, value in kwargs.items()}
        with activation.runtime.own_errors():
            return original(self, *map(_on_device, args), **moved)

    call._for_sm100sim = True  # type: ignore[attr-defined]  # a mark, read by name
    activation.replace(owner, "__call__", call)
