"""Registers from and to a lane's frame: `.reg` parameters, and registers as arguments of a call."""

from __future__ import annotations

from ..contract.codes import Space
from ..contract.forms import Memory
from ..ptx.program import DeviceFunction, Param
from .frames import FRAME
from .lowering import Lowering, Unit


def load_local(lo: Lowering, slot: int, at: int, size: int) -> None:
    """A register from `size` bytes at an offset of the lane's frame."""
    lo.emit("LD", (slot,), (lo.special(FRAME),), _access(size), at, unit=Unit.LSU)


def store_local(lo: Lowering, slot: int, at: int, param: Param) -> None:
    """A register into the bytes of a parameter."""
    lo.emit("ST", (), (lo.special(FRAME), slot), _access(param.size), at, unit=Unit.LSU)


def _access(size: int) -> Memory:
    return Memory(space=Space.LOCAL, bytes=size, register_bits=max(8 * size, 32), address_bits=32)


def enter(lo: Lowering, function: DeviceFunction) -> None:
    """At a function's start: the registers of its `.reg` parameters."""
    for param in function.signature.params:
        if param.reg is not None:
            load_local(lo, lo.dst(param.reg, param.type.bits), param.offset, param.size)
