"""Parameter blocks: the bytes of a kernel's parameters, packed once and patched for every call.

A tensor map begins with its global address (``plan.facts.tensor_map_bits``), so that another tensor
of the same layout changes eight bytes of it, as it changes a pointer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, Final

from ...plan.spec.params import KernelParams

WORD: Final = 8
"""Bytes of an address."""
_FLOAT: Final = 4


class Block:
    """Parameters of one launch in memory.

    Attributes:
        words, floats: the memory as 64-bit numbers and as 32-bit floats.
        pointers: address of an array with the address of every parameter, as a driver wants it.
        config: what else the launch needs, as the machine makes it.
        stream: the stream that ``config`` names.
    """

    __slots__ = ("_array", "_memory", "config", "floats", "pointers", "stream", "words")

    def __init__(self, image: bytes, offsets: Iterable[int], config: Any) -> None:
        """Copy ``image``."""
        self._memory = bytearray(image)
        raw = memoryview(self._memory)
        address = ctypes.addressof(ctypes.c_char.from_buffer(raw))
        places = [address + offset for offset in offsets]
        self._array = (ctypes.c_void_p * len(places))(*places)
        self.pointers = ctypes.addressof(self._array)
        self.words: Any = raw.cast("Q")
        self.floats: Any = raw.cast("f")
        self.config = config
        self.stream = -1

    def values(self, params: KernelParams) -> tuple[bytes, ...]:
        """Return the bytes of every parameter."""
        memory = bytes(self._memory)
        return tuple(memory[p.offset : p.offset + p.size] for p in params.params)


class Blocks:
    """Blocks of one kernel and launch plan; as many as launches overlap.

    Taking and returning one are single operations on a list, so that threads need no lock.

    Args:
        params: the parameters.
        values: their bytes.
        configure: makes the ``config`` of a block.
    """

    def __init__(
        self, params: KernelParams, values: Iterable[bytes], configure: Callable[[], Any]
    ) -> None:
        """Lay the values out as the kernel declares them."""
        self._params = params.params
        image = bytearray(-(-params.size // WORD) * WORD)
        for param, value in zip(self._params, values, strict=True):
            image[param.offset : param.offset + param.size] = value
        self._image = bytes(image)
        self._configure = configure
        self._free: list[Block] = []
        self.give_back = self._free.append

    def take(self) -> Block:
        """Return a block that nobody else uses; addresses in it are those of an earlier call."""
        try:
            return self._free.pop()
        except IndexError:
            offsets = (param.offset for param in self._params)
            return Block(self._image, offsets, self._configure())

    def word(self, name: str) -> int:
        """Return which of ``Block.words`` holds the address of parameter ``name``."""
        return self._offset(name) // WORD

    def float(self, name: str) -> int:
        """Return which of ``Block.floats`` parameter ``name`` is."""
        return self._offset(name) // _FLOAT

    def _offset(self, name: str) -> int:
        return next(param.offset for param in self._params if param.name == name)
