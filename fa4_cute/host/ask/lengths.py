"""Lengths, row offsets and page tables: what their values may be, and what follows from them.

A wrong value here makes the kernel read or write outside of the tensors, so values are checked
before a launch. On a CUDA tensor that means waiting for the device once per tensor; with
``unchecked=True`` nothing is read back, and the caller answers for the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from .checks import check_device, check_tensor

_INTEGERS: Final = ("torch.int32", "torch.int64")
_LARGEST: Final = 2**31 - 2**10


@dataclass(frozen=True)
class Extents:
    """Sequences of a call.

    Attributes:
        batch: how many.
        seqlen_q, seqlen_k: queries and keys of the longest; of a cache, the keys it has room for.
        used_k: keys of the longest, where they are known and less than the room.
    """

    batch: int
    seqlen_q: int
    seqlen_k: int
    used_k: int | None = None

    @property
    def most_keys(self) -> int:
        """Keys that a row may see."""
        return self.seqlen_k if self.used_k is None else self.used_k


@dataclass(frozen=True, eq=False)
class Integers:
    """An integer tensor as the kernel reads it, with its values where they were looked at.

    Attributes:
        name: argument.
        tensor: int32, contiguous.
        values: flat list, or None when unchecked.
    """

    name: str
    tensor: Any
    values: list[int] | None

    @property
    def count(self) -> int:
        """Number of elements."""
        return int(self.tensor.numel())


def integers(
    name: str, value: Any, layout: tuple[str, ...], q: Any, *, unchecked: bool
) -> Integers:
    """Return ``value`` as int32 on the device of ``q``; a copy when it is int64 or strided.

    Raises:
        TypeError: no tensor, or elements of another type.
        ValueError: wrong rank or device, or values beyond 31 bits.
    """
    import torch

    check_tensor(name, value, layout)
    check_device(name, value, q)
    if str(value.dtype) not in _INTEGERS:
        raise TypeError(
            f"{name}.dtype={value.dtype}: expected int32; nearest supported choice: "
            f"{name}.to(torch.int32)"
        )
    values = None
    if not unchecked and value.device.type != "meta":
        values = value.flatten().tolist()
        for i, number in enumerate(values):
            if abs(number) > _LARGEST:
                raise ValueError(
                    f"{name}[{i}]={number}: positions are signed 32-bit numbers; nearest "
                    f"supported choice: {_LARGEST}"
                )
    return Integers(name, value.to(torch.int32).contiguous(), values)


def check_counts(found: Integers, batch: int, limits: list[int] | None, of: str) -> None:
    """Check one length per sequence.

    Args:
        found: the lengths.
        batch: number of sequences.
        limits: the most that each may be, or None when that is not known.
        of: what the limit is, for the message.

    Raises:
        ValueError: wrong number of lengths, a negative one, or one above its limit.
    """
    if found.count != batch:
        raise ValueError(
            f"{found.name}: {found.count} lengths for {batch} sequences; expected ({batch},)"
        )
    for i, length in enumerate(found.values or ()):
        if length < 0:
            raise ValueError(f"{found.name}[{i}]={length}: must be 0 or more")
        if limits is not None and length > limits[i]:
            raise ValueError(
                f"{found.name}[{i}]={length}: exceeds the {limits[i]} {of}; nearest supported "
                f"choice: {limits[i]}"
            )


def sequence_lengths(found: Integers, total: int, *, whole: bool) -> list[int] | None:
    """Check row offsets and return the length of every sequence, or None when unchecked.

    Args:
        found: offsets of the sequences' first rows, and after them the end of the last one.
        total: rows of the packed tensor.
        whole: whether the sequences must reach to the last row.

    Raises:
        ValueError: no offset, a first one other than 0, one that is less than its predecessor, or
            a last one that does not fit ``total``.
    """
    name = found.name
    if found.count == 0:
        raise ValueError(f"{name}: empty; expected batch + 1 offsets, the first of them 0")
    offsets = found.values
    if offsets is None:
        return None
    if offsets[0] != 0:
        raise ValueError(f"{name}[0]={offsets[0]}: must be 0")
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            raise ValueError(
                f"{name}[{i}]={offsets[i]}: less than {name}[{i - 1}]={offsets[i - 1]}; offsets "
                f"must not decrease; nearest supported choice: {offsets[i - 1]}"
            )
    last = offsets[-1]
    if last > total or (whole and last != total):
        must = "be" if whole else "be at most"
        raise ValueError(
            f"{name}[-1]={last}: must {must} {total}, the rows of the packed tensor; nearest "
            f"supported choice: {total}"
        )
    return [end - start for start, end in pairwise(offsets)]


def longest(name: str, given: Any, lengths: list[int] | None, *, otherwise: int | None) -> int:
    """Return the longest sequence: as ``given``, else counted, else ``otherwise``.

    Raises:
        TypeError: ``given`` is no integer.
        ValueError: ``given`` is less than a sequence, or there is nothing to go by.
    """
    if given is None:
        if lengths is not None:
            return max(lengths, default=0)
        if otherwise is not None:
            return otherwise
        raise ValueError(
            f"{name}=None: with unchecked=True lengths are not read back from the device; nearest "
            f"supported choice: give {name}"
        )
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(
            f"{name}={given!r}: expected an integer, got {type(given).__name__}; nearest supported "
            f"choice: int({name})"
        )
    if given < 0:
        raise ValueError(f"{name}={given}: must be 0 or more")
    for i, length in enumerate(lengths or ()):
        if length > given:
            raise ValueError(
                f"{name}={given}: sequence {i} has {length} rows; nearest supported choice: "
                f"{max(lengths or ())}"
            )
    return given


def check_pages(table: Integers, used: Integers, *, page_size: int, num_pages: int) -> None:
    """Check a page table, as far as the used keys reach; entries behind them are never read.

    Raises:
        ValueError: a row too short for its sequence, or a page that does not exist.
    """
    rows, pages_per_row = table.tensor.shape
    check_counts(used, rows, [pages_per_row * page_size] * rows, "keys of the row's pages")
    if table.values is None or used.values is None:
        return
    for row, length in enumerate(used.values):
        for i in range(-(-length // page_size)):
            page = table.values[row * pages_per_row + i]
            if not 0 <= page < num_pages:
                raise ValueError(
                    f"page_table[{row}, {i}]={page}: pages are numbered from 0 to {num_pages - 1}"
                )
