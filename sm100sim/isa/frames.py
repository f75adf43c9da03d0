"""Where a thread keeps the variables of its functions.

A thread has one local memory.  The frame of the kernel lies at its start; the frame of a called
function follows that of its caller.  A frame begins with the function's results and parameters;
`.local` variables and the `.param` variables of its own calls follow.  The slot of the special
register FRAME holds where the frame of each lane's function begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ptx.program import DeviceFunction, Function, Signature

FRAME = "frame"
FRAME_ALIGNMENT = 64
STACK_BYTES = 1 << 17
"""Local memory that recursion may take, per thread.  CUDA gives it 1 KiB (cudaLimitStackSize) if a
program does not ask for more; how much a call takes there, only ptxas knows."""


def align(value: int, to: int) -> int:
    """`value` rounded up to a multiple of `to`."""
    return (value + to - 1) // to * to


@dataclass(frozen=True, slots=True)
class Frame:
    """A function's part of local memory: offset and bytes of every variable, bytes of the whole."""

    offsets: Mapping[str, int]
    sizes: Mapping[str, int]
    bytes: int

    @property
    def room(self) -> int:
        """Where the frame of a called function begins, from the start of this one."""
        return align(max(self.bytes, 1), FRAME_ALIGNMENT)


def frame_of(function: Function) -> Frame:
    """Place what a function keeps in local memory."""
    kind = function.signature if isinstance(function, DeviceFunction) else Signature()
    every = (*kind.results, *kind.params)
    offsets = {p.name: p.offset for p in every}
    sizes = {p.name: p.size for p in every}
    end = kind.size
    for var in function.local:
        offsets[var.name] = align(end, max(var.align, 1))
        sizes[var.name] = var.size_bytes
        end = offsets[var.name] + var.size_bytes
    start = align(end, FRAME_ALIGNMENT)
    for name, (offset, size) in function.call_params.items():
        offsets[name], sizes[name] = start + offset, size
        end = max(end, start + offset + size)
    return Frame(offsets, sizes, align(end, 16))
