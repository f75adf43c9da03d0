"""Tensor maps (CUDA Driver API, "Tensor Map Object Management")."""

from __future__ import annotations

from ...host.callbacks import ELEMENT_NAMES, KNOWN_SWIZZLES
from ...layouts.swizzle import TmaSwizzle
from ...layouts.tensor_map import MAX_RANK, TensorMap, TensorMapRefused
from ..base.codes import CudaError, Status
from ..base.session import Session
from ..base.table import entry

_ADDRESS_BYTES = 8


@entry("cuTensorMapEncodeTiled")
def encode_tiled(s: Session, *words: int) -> None:
    """Write the descriptor of a tiled tensor map."""
    target, kind, rank, address, sizes, strides, box, steps, *codes = words[:12]
    kind, rank, (interleave, swizzle, promotion, fill) = kind & 255, rank & 255, _low(codes)
    if not 1 <= rank <= MAX_RANK:
        raise CudaError(Status.INVALID_VALUE, f"rank {rank} of a tensor map is not 1 to {MAX_RANK}")
    if interleave or swizzle not in KNOWN_SWIZZLES or kind >= len(ELEMENT_NAMES):
        raise CudaError(
            Status.NOT_SUPPORTED,
            f"type {kind}, interleave {interleave}, swizzle {swizzle}: the code is not known",
        )
    read = s.program.read_words
    try:
        raw = TensorMap(
            element=ELEMENT_NAMES[kind],
            address=address,
            sizes=read(sizes, f"{rank}Q"),
            strides=read(strides, f"{rank - 1}Q"),
            box=read(box, f"{rank}I"),
            element_strides=read(steps, f"{rank}I"),
            swizzle=TmaSwizzle(swizzle),
            l2=promotion,
            nan_fill=bool(fill),
        ).encode()
    except TensorMapRefused as error:
        raise CudaError(Status.INVALID_VALUE, str(error)) from None
    s.program.write(target, raw)


@entry("cuTensorMapReplaceAddress")
def replace_address(s: Session, target: int, address: int) -> None:
    """Change where the tensor of a descriptor lies."""
    if address % 16:
        raise CudaError(Status.INVALID_VALUE, f"address {address:#x} is not a multiple of 16")
    s.program.write(target, address.to_bytes(_ADDRESS_BYTES, "little"))


def _low(words: list[int]) -> list[int]:
    return [word & 0xFFFFFFFF for word in words]
