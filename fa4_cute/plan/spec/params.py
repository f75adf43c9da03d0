"""The kernel's parameter list, byte by byte: what the host packs is what the PTX declares.

Four tensor maps by value (64-byte aligned ``.b8[128]``), then the LSE pointer and the scalars, in
the order of :data:`KERNEL_PARAMS`. Offsets follow the PTX rule: each parameter at the next multiple
of its own alignment (PTX ISA, "Kernel Function Parameters").
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..facts.hardware import TENSOR_MAP_ALIGN, align_up
from ..facts.tensor_map_bits import TENSOR_MAP_BYTES

_FORMATS: Final = {"u64": "<Q", "u32": "<i", "f32": "<f"}


@dataclass(frozen=True)
class Param:
    """One kernel parameter: PTX type (``tensor_map``, ``u64``, ``u32`` or ``f32``) and offset."""

    name: str
    kind: str
    offset: int

    @property
    def size(self) -> int:
        """Bytes of the parameter."""
        if self.kind == "tensor_map":
            return TENSOR_MAP_BYTES
        return struct.calcsize(_FORMATS[self.kind])

    @property
    def align(self) -> int:
        """Alignment of the parameter in bytes."""
        return TENSOR_MAP_ALIGN if self.kind == "tensor_map" else self.size

    def pack(self, value: bytes | int | float) -> bytes:
        """Return ``value`` as the parameter's bytes.

        Raises:
            ValueError: when a tensor map has the wrong length or a number does not fit.
        """
        if isinstance(value, bytes):
            if len(value) != self.size:
                raise ValueError(f"{self.name}: {len(value)} bytes given, {self.size} expected")
            return value
        try:
            return struct.pack(_FORMATS[self.kind], value)
        except (struct.error, OverflowError, KeyError) as error:
            raise ValueError(f"{self.name}={value!r} does not fit a {self.kind}") from error


@dataclass(frozen=True)
class KernelParams:
    """The parameters in declaration order."""

    params: tuple[Param, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole parameter block."""
        return self.params[-1].offset + self.params[-1].size

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names in declaration order."""
        return tuple(param.name for param in self.params)

    def pack(self, values: Mapping[str, bytes | int | float]) -> list[bytes]:
        """Return the bytes of each parameter, in order.

        Raises:
            ValueError: when a name is missing or unknown, or a value does not fit.
        """
        if set(values) != set(self.names):
            raise ValueError(f"parameters {sorted(values)} given, {sorted(self.names)} expected")
        return [param.pack(values[param.name]) for param in self.params]


def lay_out(*declarations: tuple[str, str]) -> KernelParams:
    """Return the parameter list of (name, kind) ``declarations`` in their order."""
    params: list[Param] = []
    offset = 0
    for name, kind in declarations:
        offset = align_up(offset, Param(name, kind, 0).align)
        params.append(Param(name, kind, offset))
        offset += params[-1].size
    return KernelParams(tuple(params))


def extended(base: KernelParams, *declarations: tuple[str, str]) -> KernelParams:
    """Return ``base`` with further (name, kind) parameters after its own."""
    return lay_out(*((p.name, p.kind) for p in base.params), *declarations)


KERNEL_PARAMS: Final = lay_out(
    ("q_map", "tensor_map"),
    ("k_map", "tensor_map"),
    ("v_map", "tensor_map"),
    ("o_map", "tensor_map"),
    ("lse", "u64"),
    ("seqlen_q", "u32"),
    ("seqlen_k", "u32"),
    ("num_q_heads", "u32"),
    ("scale_log2", "f32"),
)
"""Parameters of ``SM100MHA2Q``. ``lse`` is a float32 array (batch, num_q_heads, seqlen_q), or 0
when the kernel was compiled without it; ``scale_log2`` is the softmax scale times log2(e)."""


def with_rope_maps(base: KernelParams) -> KernelParams:
    """Return ``base`` with the maps of rope columns that are tensors of their own."""
    declared = [(p.name, p.kind) for p in base.params]
    num_maps = sum(kind == "tensor_map" for _, kind in declared)
    own = (("q_rope_map", "tensor_map"), ("k_rope_map", "tensor_map"))
    return lay_out(*declared[:num_maps], *own, *declared[num_maps:])
