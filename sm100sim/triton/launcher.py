"""One compiled Triton kernel: arguments -> parameter bytes -> a launch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..launch_request import LaunchRequest
from ..memory import Allocation, allocation_of, device_of, pointed_at
from ..run import run
from .clock import Clock
from .signature import DESCRIPTOR, expansion

_NUMBERS = {
    "i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u1": "<B", "u8": "<B",
    "u16": "<H", "u32": "<I", "u64": "<Q", "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip
"""Struct format of each scalar type of Triton; bf16 is the upper half of an fp32."""

LONGEST = 150
"""Characters of a function's name in that of its files in Triton's cache; a kernel may have another
name."""
SCRATCH = ("global_scratch", "profile_scratch")
"""Global memory that Triton passes after a kernel's own arguments."""


def packed(kind: str, value: Any) -> bytes:
    """The parameter bytes of one flat argument.

    Raises:
        NotImplementedError: a type that Triton's own launcher does not pass, either.
        ValueError: a tensor that is not in host memory.
    """
    if kind.startswith("*"):
        return struct.pack("<Q", _address(value))
    if kind == DESCRIPTOR:
        return bytes(value)
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    if kind not in _NUMBERS:
        raise NotImplementedError(f"an argument of Triton type {kind!r}")
    number = int(value) if _NUMBERS[kind][1] in "bhiqBHIQ" else float(value)
    return struct.pack(_NUMBERS[kind], number)


def _address(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    device = device_of(value) if hasattr(value, "untyped_storage") else "cpu"
    if device != "cpu":
        raise ValueError(f"a tensor on {device!r}: give CPU tensors, which the simulator reads")
    return int(value.data_ptr())


def _flat(kinds: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Types and values without tuples and constants."""
    for kind, value in zip(kinds, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flat(kind, value)
        elif kind != "constexpr":
            yield kind, value


def buffers(names: Iterable[str], values: Iterable[Any]) -> Iterator[Allocation]:
    """Host memory behind tensors, descriptors of tensors and tuples of them, named, and what
    tensors of addresses name."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value, tuple | list):
            yield from buffers([f"{name}[{k}]" for k in range(len(value))], value)
        elif hasattr(value, "untyped_storage") or hasattr(value, "__array_interface__"):
            yield allocation_of(value, name=name)
            yield from pointed_at(value)
        elif hasattr(value, "base"):
            yield from buffers([name], [value.base])


class Launcher:
    """What Triton calls to launch a kernel (`launcher_cls` of a driver)."""

    def __init__(self, clock: Clock, src: Any, metadata: Any) -> None:
        """`src`, `metadata`: as Triton's compiler gives them."""
        self._clock = clock
        self._metadata = metadata
        self._file = f"{src.name[:LONGEST]}.ptx"
        self._names = list(src.signature)
        descriptors = getattr(metadata, "tensordesc_meta", None)
        self._kinds, self._expanded = expansion(src.signature, descriptors)

    def _ptx(self) -> str:
        from triton.runtime.cache import get_cache_manager

        path = get_cache_manager(self._metadata.hash).get_file(self._file)
        if path is None:
            raise FileNotFoundError(
                f"{self._file} is not in Triton's cache any more; compile it again"
            )
        return Path(path).read_text()

    def _scratch(self, what: str, ctas: int) -> npt.NDArray[np.uint8] | None:
        """Zeroed memory that the kernel asks for besides its arguments, or None."""
        size = getattr(self._metadata, f"{what}_size", 0) or 0
        if not size:
            return None
        alignment = max(getattr(self._metadata, f"{what}_align", 1) or 1, 128)
        raw = np.zeros(size * ctas + alignment, np.uint8)
        start = -raw.ctypes.data % alignment
        return raw[start : start + size * ctas]

    def __call__(self, x: int, y: int, z: int, *rest: Any) -> None:
        """Triton's calling convention: grid, stream, function, metadata, hooks, arguments.

        An empty grid launches nothing.

        Raises:
            SimulationFault: a rule was broken.
        """
        if x * y * z == 0:
            return
        _stream, _function, _packed, launch_metadata, enter_hook, exit_hook, *args = rest
        meta = self._metadata
        clusters = getattr(meta, "num_ctas", 1) or 1
        memory = list(buffers(self._names, args))
        params = [packed(kind, value) for kind, value in _flat(self._kinds, self._expanded(args))]
        scratch = [self._scratch(what, x * y * z * clusters) for what in SCRATCH]
        params += [struct.pack("<Q", 0 if a is None else a.ctypes.data) for a in scratch]
        memory += [allocation_of(a, name="scratch") for a in scratch if a is not None]
        request = LaunchRequest(
            ptx=self._ptx(),
            kernel=meta.name,
            grid=(x * clusters, y, z),
            block=(32 * meta.num_warps, 1, 1),
            cluster=(clusters, 1, 1),
            smem_bytes=meta.shared,
            params=tuple(params),
        )
        if enter_hook is not None:
            enter_hook(launch_metadata)
        self._clock.add(run(request, None, memory))
        if exit_hook is not None:
            exit_hook(launch_metadata)
