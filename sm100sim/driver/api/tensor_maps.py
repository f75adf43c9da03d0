"""Tensor maps (CUDA Driver API, "Tensor Map Object Management")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ...host.callbacks import ELEMENT_NAMES, KNOWN_SWIZZLES
from ...layouts.im2col import CORNER_BITS, Im2colMap, pixel_box
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
    with _refusals():
        made = _tensor(s, (kind, rank, address, sizes, strides, steps), codes)
        s.program.write(target, made(s.program.read_words(box, f"{rank & 255}I")).encode())


@entry("cuTensorMapEncodeIm2col")
def encode_im2col(s: Session, *words: int) -> None:
    """Write the descriptor of an im2col tensor map."""
    target, kind, rank, address, sizes, strides, lower, upper, *rest = words[:15]
    channels, pixels, steps, *codes = rest
    corner = f"{(rank & 255) - 2}i"
    with _refusals():
        made = _tensor(s, (kind, rank, address, sizes, strides, steps), codes)
        if rank & 255 not in CORNER_BITS:
            raise TensorMapRefused(f"rank {rank & 255} of an im2col map is not 3, 4 or 5")
        tensor = made(pixel_box(channels & 0xFFFFFFFF, rank & 255))
        low, high = (s.program.read_words(at, corner) for at in (lower, upper))
        s.program.write(target, Im2colMap(tensor, low, high, pixels & 0xFFFFFFFF).encode())


@contextmanager
def _refusals() -> Iterator[None]:
    """Refusals of a tensor map as the driver's error."""
    try:
        yield
    except TensorMapRefused as error:
        raise CudaError(Status.INVALID_VALUE, str(error)) from None


def _tensor(
    s: Session, words: tuple[int, ...], codes: list[int]
) -> Callable[[tuple[int, ...]], TensorMap]:
    """What all encoders take, read from the program: a function from the box to the map."""
    kind, rank, address, sizes, strides, steps = words
    kind, rank, (interleave, swizzle, promotion, fill) = kind & 255, rank & 255, _low(codes)
    if not 1 <= rank <= MAX_RANK:
        raise CudaError(Status.INVALID_VALUE, f"rank {rank} of a tensor map is not 1 to {MAX_RANK}")
    if interleave or swizzle not in KNOWN_SWIZZLES or kind >= len(ELEMENT_NAMES):
        raise CudaError(
            Status.NOT_SUPPORTED,
            f"type {kind}, interleave {interleave}, swizzle {swizzle}: the code is not known",
        )
    read = s.program.read_words
    return partial(
        TensorMap,
        ELEMENT_NAMES[kind],
        address,
        read(sizes, f"{rank}Q"),
        read(strides, f"{rank - 1}Q"),
        element_strides=read(steps, f"{rank}I"),
        swizzle=TmaSwizzle(swizzle),
        l2=promotion,
        nan_fill=bool(fill),
    )


@entry("cuTensorMapReplaceAddress")
def replace_address(s: Session, target: int, address: int) -> None:
    """Change where the tensor of a descriptor lies."""
    if address % 16:
        raise CudaError(Status.INVALID_VALUE, f"address {address:#x} is not a multiple of 16")
    s.program.write(target, address.to_bytes(_ADDRESS_BYTES, "little"))


def _low(words: list[int]) -> list[int]:
    return [word & 0xFFFFFFFF for word in words]
