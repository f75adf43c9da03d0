"""Python values -> the bytes of a kernel's parameters, by the types that the PTX declares."""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..memory import Allocation, allocation_of, device_of
from ..ptx.program import Param

_FLOATS = {16: "<e", 32: "<f", 64: "<d"}
_POINTER_BYTES = 8


def described(param: Param) -> str:
    """A parameter in words: its name and type, e.g. "n (.u32)" or "map (.b8[128])"."""
    count = param.size // param.type.size
    return f"{param.name} (.{param.type.name}{f'[{count}]' if count > 1 else ''})"


def packed(
    params: Sequence[Param], args: Sequence[Any]
) -> tuple[tuple[bytes, ...], list[Allocation]]:
    """The bytes of each parameter, and the memory behind the arrays among the arguments.

    Arrays and CPU tensors give their address; None gives the null pointer; numbers are converted
    to the parameter's type, an integer of n bits from -2^(n-1) to 2^n - 1; a parameter without a
    sign or a point (`.b32`) takes a float as the float of its width; bytes fill any parameter.

    Raises:
        ValueError: too many or too few arguments, or one that does not fit; names the parameter.
        TypeError: an argument of another kind; names the parameter.
    """
    if len(args) != len(params):
        names = ", ".join(described(p) for p in params) or "none"
        raise ValueError(
            f"args: {len(args)} given, the kernel has {len(params)} parameters: {names}"
        )
    memory: list[Allocation] = []
    pairs = enumerate(zip(params, args, strict=True))
    return tuple(_one(f"args[{k}]", param, arg, memory) for k, (param, arg) in pairs), memory


def _one(name: str, param: Param, value: Any, memory: list[Allocation]) -> bytes:
    place = f"{name}, parameter {described(param)}"
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        if len(raw) != param.size:
            raise ValueError(f"{place}: {len(raw)} bytes given, {param.size} are needed")
        return raw
    if value is None or _is_buffer(value):
        if param.size != _POINTER_BYTES or param.type.is_float:
            what = "None" if value is None else f"an array ({type(value).__name__})"
            raise TypeError(f"{place}: {what} gives an address, which has {_POINTER_BYTES} bytes")
        return _address(place, param.name, value, memory).to_bytes(_POINTER_BYTES, "little")
    if param.size != param.type.size:
        kind = type(value).__name__
        raise TypeError(f"{place}: {kind} given; give its {param.size} bytes as a byte string")
    return _number(place, param, value)


def _is_buffer(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "untyped_storage")


def _address(place: str, name: str, value: Any, memory: list[Allocation]) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        memory.append(allocation_of(value, value.flags.writeable, name))
        return int(value.ctypes.data)
    if device_of(value) != "cpu":
        raise ValueError(f"{place}: a tensor on {value.device}; give a CPU tensor")
    memory.append(allocation_of(value, name=name))
    return int(value.data_ptr())


def _number(place: str, param: Param, value: Any) -> bytes:
    bits, name = param.type.bits, param.type.name
    if name == f"f{bits}" or (name[0] == "b" and isinstance(value, float | np.floating)):
        if bits not in _FLOATS or not isinstance(value, int | float | np.integer | np.floating):
            raise TypeError(f"{place}: {value!r} is no number of this type; give bytes")
        try:
            return struct.pack(_FLOATS[bits], float(value))
        except OverflowError:
            raise ValueError(f"{place}: {value!r} is too large for {bits} bits") from None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{place}: {value!r} ({type(value).__name__}) is no whole number") from None
    if name[0] not in "bus" or name.startswith("bf"):
        raise TypeError(f"{place}: numbers of type .{name} are given as bytes")
    if not -(1 << bits >> 1) <= number < 1 << bits:
        raise ValueError(f"{place}: {number} does not fit into {bits} bits")
    return (number & ((1 << bits) - 1)).to_bytes(param.size, "little")
