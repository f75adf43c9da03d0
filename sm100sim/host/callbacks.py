"""ctypes glue between the shim's function pointers and the runtime."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from ..layouts.swizzle import TmaSwizzle
from ..layouts.tensor_map import MAX_RANK, TensorMap, TensorMapRefused
from .runtime import LAUNCH_FAILURE, NOT_SUPPORTED, SUCCESS, Runtime, UnsupportedCallError

_I32 = ctypes.c_int32
_U64 = ctypes.c_uint64
_PTR = ctypes.c_void_p
_PTR_OUT = ctypes.POINTER(ctypes.c_void_p)
_I32_OUT = ctypes.POINTER(ctypes.c_int32)

PROTOTYPES: dict[str, Any] = {
    "load_library": ctypes.CFUNCTYPE(_I32, _PTR_OUT, _PTR),
    "unload_library": ctypes.CFUNCTYPE(_I32, _PTR),
    "get_kernel": ctypes.CFUNCTYPE(_I32, _PTR_OUT, _PTR, ctypes.c_char_p),
    "kernel_attribute": ctypes.CFUNCTYPE(_I32, _I32_OUT, _I32, _PTR),
    "set_kernel_attribute": ctypes.CFUNCTYPE(_I32, _PTR, _I32, _I32),
    "device_attribute": ctypes.CFUNCTYPE(_I32, _I32_OUT, _I32),
    "launch": ctypes.CFUNCTYPE(_I32, _PTR, _PTR, _PTR),
    "allocate": ctypes.CFUNCTYPE(_I32, _PTR_OUT, _U64),
    "release": ctypes.CFUNCTYPE(_I32, _PTR),
    "encode_tensor_map": ctypes.CFUNCTYPE(
        _I32, _PTR, _I32, ctypes.c_uint32, _U64, _PTR, _PTR, _PTR, _PTR, _I32, _I32, _I32, _I32
    ),
    "unsupported": ctypes.CFUNCTYPE(_I32, ctypes.c_char_p),
    "assertion_failed": ctypes.CFUNCTYPE(_I32, _I32),
    "describe": ctypes.CFUNCTYPE(_I32, _I32, _PTR, _U64),
}
"""Same order and meaning as ``Callbacks`` in shim.c."""

ELEMENT_NAMES = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64",
    "BFLOAT16", "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ", "16U4_ALIGN8B",
    "16U4_ALIGN16B", "16U6_ALIGN16B",
)  # fmt: skip
"""``CUtensorMapDataType`` by number."""

KNOWN_SWIZZLES = frozenset(TmaSwizzle)


class CallbackTable(ctypes.Structure):
    """The C structure of function pointers handed to ``sm100sim_register``."""

    _fields_ = list(PROTOTYPES.items())


def build_table(runtime: Runtime) -> CallbackTable:
    """Function pointers over a runtime; the caller keeps the table alive while it is registered."""
    handlers = _Handlers(runtime)
    return CallbackTable(
        *(
            prototype(_guarded(runtime, getattr(handlers, name)))
            for name, prototype in PROTOTYPES.items()
        )
    )


def _guarded(runtime: Runtime, handler: Callable[..., int]) -> Callable[..., int]:
    """Keep an exception in the runtime and answer an error code instead."""

    def call(*arguments: Any) -> int:
        try:
            return handler(*arguments)
        except BaseException as error:  # nothing may escape into foreign code
            runtime.pending = error
            return NOT_SUPPORTED if isinstance(error, UnsupportedCallError) else LAUNCH_FAILURE

    return call


def _integers(address: int, kind: str, count: int) -> tuple[int, ...]:
    """``count`` unsigned integers of a struct format letter from a host address."""
    form = struct.Struct(f"<{count}{kind}")
    return form.unpack(ctypes.string_at(address, form.size)) if count else ()


class _Handlers:
    """One method per function pointer: unpack C arguments, call the runtime, store results."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def load_library(self, library: Any, image: int) -> int:
        library[0] = self._runtime.load_library(image or 0)
        return SUCCESS

    def unload_library(self, library: int) -> int:
        self._runtime.unload_library(library or 0)
        return SUCCESS

    def get_kernel(self, kernel: Any, library: int, name: bytes) -> int:
        kernel[0] = self._runtime.get_kernel(library or 0, name.decode())
        return SUCCESS

    def kernel_attribute(self, value: Any, attribute: int, kernel: int) -> int:
        value[0] = self._runtime.kernel(kernel or 0).attributes.get(attribute, 0)
        return SUCCESS

    def set_kernel_attribute(self, kernel: int, attribute: int, value: int) -> int:
        self._runtime.kernel(kernel or 0).attributes[attribute] = value
        return SUCCESS

    def device_attribute(self, value: Any, attribute: int) -> int:
        known = self._runtime.device.attributes
        if attribute not in known:
            raise UnsupportedCallError(
                f"cudaDeviceGetAttribute({attribute}): sm100sim has no value for this attribute"
            )
        value[0] = known[attribute]
        return SUCCESS

    def launch(self, config: int, kernel: int, args: int) -> int:
        if self._runtime.pending is not None:  # an earlier call of the same program failed
            return LAUNCH_FAILURE
        self._runtime.launch(config, kernel or 0, args or 0)
        return SUCCESS

    def allocate(self, pointer: Any, size: int) -> int:
        pointer[0] = self._runtime.allocate(size)
        return SUCCESS

    def release(self, pointer: int) -> int:
        self._runtime.release(pointer or 0)
        return SUCCESS

    def encode_tensor_map(
        self, target: int, data_type: int, rank: int, address: int, *rest: int
    ) -> int:
        sizes, strides, box, steps, interleave, swizzle, l2_promotion, nan_fill = rest
        if not 1 <= rank <= MAX_RANK:
            raise TensorMapRefused(f"rank {rank} of a tensor map is not 1 to {MAX_RANK}")
        known = not interleave and swizzle in KNOWN_SWIZZLES and 0 <= data_type < len(ELEMENT_NAMES)
        if not known:
            raise UnsupportedCallError(
                f"cuTensorMapEncodeTiled with type {data_type}, interleave {interleave}, swizzle "
                f"{swizzle}: the descriptor's code is not known"
            )
        descriptor = TensorMap(
            element=ELEMENT_NAMES[data_type],
            address=address,
            sizes=_integers(sizes, "Q", rank),
            strides=_integers(strides, "Q", rank - 1),
            box=_integers(box, "I", rank),
            element_strides=_integers(steps, "I", rank),
            swizzle=TmaSwizzle(swizzle),
            l2=l2_promotion,
            nan_fill=bool(nan_fill),
        ).encode()
        ctypes.memmove(target, descriptor, len(descriptor))
        return SUCCESS

    def assertion_failed(self, code: int) -> int:
        self._runtime.assertion_failed(code)
        return LAUNCH_FAILURE

    def unsupported(self, name: bytes) -> int:
        raise UnsupportedCallError(
            f"{name.decode().lstrip('_')} is not modelled by sm100sim's runtime"
        )

    def describe(self, code: int, text: int, capacity: int) -> int:
        cause = self._runtime.describe(code).encode()[: capacity - 1]
        ctypes.memmove(text, cause + b"\0", len(cause) + 1)
        return SUCCESS
