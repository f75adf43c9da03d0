"""Known global allocations, against which every global access of a kernel is checked."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes [start, start + size) of host memory that kernels may touch."""

    start: int
    size: int
    writable: bool = True


_registered: dict[int, Allocation] = {}


def allocation_of(buffer: Any, writable: bool = True) -> Allocation:
    """The storage behind a torch tensor, a numpy array or an `Allocation`.

    A torch view is widened to its whole storage, a numpy view to its base array.

    Raises:
        TypeError: the object has no host memory.
    """
    if isinstance(buffer, Allocation):
        return buffer
    if hasattr(buffer, "untyped_storage"):
        storage = buffer.untyped_storage()
        return Allocation(storage.data_ptr(), storage.nbytes(), writable)
    if hasattr(buffer, "__array_interface__"):
        base = buffer
        while getattr(base, "base", None) is not None and hasattr(base.base, "__array_interface__"):
            base = base.base
        return Allocation(base.ctypes.data, base.nbytes, writable)
    raise TypeError(
        f"buffer: {type(buffer).__name__} has no host memory; give a CPU tensor or an array"
    )


def register(buffer: Any, writable: bool = True) -> Any:
    """Make `buffer` (CPU tensor or array) known to launches for as long as it lives; returns it."""
    found = allocation_of(buffer, writable)
    _registered[id(buffer)] = found
    weakref.finalize(buffer, _registered.pop, id(buffer), None)
    return buffer


def process_mappings() -> list[Allocation]:
    """Readable mappings of this process: the fallback when nothing was registered."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, mode, *_ = line.split()
        lo, hi = (int(x, 16) for x in span.split("-"))
        if "r" in mode:
            found.append(Allocation(lo, hi - lo, "w" in mode))
    return found


def allocations(extra: Iterable[Any]) -> tuple[list[Allocation], str]:
    """Allocations for one launch, and in words what they are."""
    known = [allocation_of(b) for b in extra]
    if known or _registered:
        return known + list(_registered.values()), "registered allocations"
    return process_mappings(), "the process's memory mappings (nothing was registered)"
