"""Known global allocations, against which every global access of a kernel is checked."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .contract.records import REGION_KINDS


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes [start, start + size) of host memory that kernels may touch; findings say `name`.

    Of a heap, which outlives launches, they may touch what `malloc` gave.
    """

    start: int
    size: int
    writable: bool = True
    name: str = ""
    heap: bool = False

    @property
    def kind(self) -> int:
        """Its number in REGION_KINDS."""
        word = "heap" if self.heap else "writable" if self.writable else "read_only"
        return REGION_KINDS.index(word)


_registered: dict[int, Allocation] = {}
on_device: weakref.WeakSet[Any] = weakref.WeakSet()
"""Storages of torch that stand for device memory (`sm100sim.torch`)."""


def allocation_of(buffer: Any, writable: bool = True, name: str = "") -> Allocation:
    """The storage behind a torch tensor, a numpy array or an `Allocation`.

    A torch view is widened to its whole storage, a numpy view to its base array. Without a name it
    is called after type and shape, such as "float32[64, 128]".

    Raises:
        TypeError: the object has no host memory, or holds Python objects, which a kernel that
            writes there would break.
    """
    if isinstance(buffer, Allocation):
        return buffer
    if getattr(getattr(buffer, "dtype", None), "hasobject", False):
        raise TypeError(f"buffer: {_shape(buffer)} holds Python objects; give an array of numbers")
    if hasattr(buffer, "untyped_storage"):
        storage = buffer.untyped_storage()
        return Allocation(storage.data_ptr(), storage.nbytes(), writable, name or _shape(buffer))
    if hasattr(buffer, "__array_interface__"):
        base = buffer
        while getattr(base, "base", None) is not None and hasattr(base.base, "__array_interface__"):
            base = base.base
        return Allocation(base.ctypes.data, base.nbytes, writable, name or _shape(base))
    raise TypeError(
        f"buffer: {type(buffer).__name__} has no host memory; give a CPU tensor or an array"
    )


def device_of(tensor: Any) -> str:
    """The kind of device that holds a torch tensor, whatever the tensor says (sm100sim.torch)."""
    return str(tensor.untyped_storage().device.type)


def _shape(buffer: Any) -> str:
    return f"{buffer.dtype}{list(buffer.shape)}".removeprefix("torch.")


def register(buffer: Any, writable: bool = True, name: str = "") -> Any:
    """Make `buffer` (CPU tensor or array) known to launches for as long as it lives; return it.

    Args:
        buffer: memory that kernels may access.
        writable: whether they may write to it.
        name: what findings call it; its type and shape if not given.
    """
    found = allocation_of(buffer, writable, name)
    _registered[id(buffer)] = found
    weakref.finalize(buffer, _registered.pop, id(buffer), None)
    return buffer


def pointed_at(buffer: Any) -> list[Allocation]:
    """The storages of `on_device` that the values of a torch tensor of 64-bit integers lie in."""
    if not on_device or not str(getattr(buffer, "dtype", "")).endswith("int64"):
        return []
    values = np.unique(buffer.detach().numpy())
    found = []
    for storage in on_device:
        first = np.searchsorted(values, storage.data_ptr())
        if first < values.size and int(values[first]) < storage.data_ptr() + storage.nbytes():
            found.append(Allocation(storage.data_ptr(), storage.nbytes()))
    return found


def process_mappings() -> list[Allocation]:
    """Readable mappings of this process: the fallback when nothing was registered.

    Mappings that touch are one: a heap is listed in pieces, in two of which an array can lie.
    """
    found: list[Allocation] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, *_ = line.split()
        lo, hi = (int(x, 16) for x in span.split("-"))
        if "r" not in mode:
            continue
        last = found[-1] if found else Allocation(0, 0)
        if (last.start + last.size, last.writable) == (lo, "w" in mode):
            found[-1] = Allocation(last.start, hi - last.start, last.writable)
        else:
            found.append(Allocation(lo, hi - lo, "w" in mode))
    return found


def allocations(extra: Iterable[Any]) -> tuple[list[Allocation], str]:
    """Allocations for one launch, and in words what they are."""
    known = [allocation_of(b) for b in extra]
    if known or _registered:
        return known + list(_registered.values()), "registered allocations"
    return process_mappings(), "the process's memory mappings (nothing was registered)"


_WHOLE = re.compile(r"the (\d+) bytes at (0x[0-9a-f]+)")
_INSIDE = re.compile(r"0x[0-9a-f]{9,16}\b(?!\))")
"""An address of more than 32 bits: shared and local ones have fewer."""


def readable(name: str) -> str:
    """A variable's name; of one that C++ mangled as local to a function, the part it was given.

    Itanium C++ ABI, "Scope Encoding": `_ZZ`, the function, `E`, the name after its length, and
    perhaps a number.
    """
    for found in re.finditer(r"E(\d+)", name) if name.startswith("_ZZ") else ():
        end = found.end() + int(found[1])
        if found.end() < end <= len(name) and re.fullmatch(r"(_\d+)?", name[end:]):
            return name[found.end() : end]
    return name


_SHARED = re.compile(r"(?<!tmem )(?<!global )CTA \d+ \+ 0x([0-9a-f]+)\b")
"""An offset in the shared window of a CTA."""


def with_shared_names(message: str, variables: Sequence[Allocation]) -> str:
    """A finding's message with the names of the shared variables whose offsets it holds.

    Args:
        message: names them as "CTA 0 + 0x480".
        variables: by window offset; one without a size holds what no other one does.
    """

    def named(found: re.Match[str]) -> str:
        offset = int(found[1], 16)
        owners = [v for v in variables if v.start <= offset < v.start + v.size]
        owners += [v for v in variables if not v.size and v.start <= offset]
        if not owners:
            return found.group()
        return f"{found.group()} (`{owners[0].name}` + {offset - owners[0].start})"

    return _SHARED.sub(named, message)


def with_names(message: str, known: Sequence[Allocation]) -> str:
    """A finding's message with the names of the allocations whose addresses it holds."""
    named = [a for a in known if a.name and a.size]

    def whole(found: re.Match[str]) -> str:
        size, start = int(found[1]), int(found[2], 16)
        names = [a.name for a in named if (a.start, a.size) == (start, size)]
        return f"`{names[0]}` ({size} bytes at {found[2]})" if names else found.group()

    def inside(found: re.Match[str]) -> str:
        address = int(found.group(), 16)
        owners = [a for a in named if a.start <= address < a.start + a.size]
        if not owners:
            return found.group()
        return f"{found.group()} (`{owners[0].name}` + {address - owners[0].start})"

    return _INSIDE.sub(inside, _WHOLE.sub(whole, message))
