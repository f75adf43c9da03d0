"""Where sequences lie: lengths, row offsets and page tables, and what follows from them.

A wrong value here makes the kernel read or write outside of the tensors, so values are checked
before a launch, for which a CUDA call waits for the device; with ``unchecked=True`` they are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ...plan.facts.numbers import MAX_SEQLEN
from .arguments import Batch, Inputs
from .checks import check_device, check_readable, check_tensor

_INTEGERS: Final = ("torch.int32", "torch.int64")
_MOST_VALUES: Final = 1 << 24


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of a call: how many, how long, and the tensors that say where they lie.

    Attributes:
        batch: how many.
        seqlen_q, seqlen_k: queries and keys of the longest; of a cache, the keys it has room for.
        used_k: keys of the longest, where they are known and less than the room.
        page_size: keys per page, 0 without pages.
        cu_seqlens_q, cu_seqlens_k, seqused_k, page_table: int32 tensors, or None.
    """

    batch: int
    seqlen_q: int
    seqlen_k: int
    used_k: int | None = None
    page_size: int = 0
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None
    page_table: Any = None

    @property
    def most_keys(self) -> int:
        """Keys that a row may see."""
        return self.seqlen_k if self.used_k is None else self.used_k

    @classmethod
    def dense(cls, q: Any, k: Any) -> Sequences:
        """Return those of q and k (batch, seqlen, heads, head_dim)."""
        return cls(q.shape[0], q.shape[1], k.shape[1])


def sequences(inputs: Inputs, batch: Batch, *, unchecked: bool) -> Sequences:
    """Check where the sequences of a call lie.

    Raises:
        TypeError, ValueError: as the functions of this module, naming the argument.
    """
    q, k, _ = inputs
    if batch.is_plain:
        return Sequences.dense(q, k)
    if batch.cu_seqlens_k is not None and batch.page_table is not None:
        raise ValueError(
            "cu_seqlens_k: keys of a paged cache have no row offsets; nearest supported choice: "
            "seqused_k with page_table"
        )
    if batch.page_table is not None and batch.seqused_k is None:
        raise ValueError("page_table: a paged cache needs seqused_k, the keys of each sequence")

    def read(name: str, value: Any, rows: int | None, *layout: str) -> Integers | None:
        if value is None:
            return None
        return integers(name, value, layout, q, unchecked=unchecked, rows=rows)

    of_q = read("cu_seqlens_q", batch.cu_seqlens_q, None, "batch + 1")
    rows = q.shape[0] if of_q is None else of_q.count - 1
    if rows < 0:
        raise ValueError("cu_seqlens_q: empty; expected batch + 1 offsets, the first of them 0")
    given = _Given(
        of_q,
        read("cu_seqlens_k", batch.cu_seqlens_k, rows + 1, "batch + 1"),
        read("seqused_k", batch.seqused_k, rows, "batch"),
        read("page_table", batch.page_table, rows, "batch", "pages_per_row"),
    )
    count, seqlen_q = _queries(q, given, batch.max_seqlen_q)
    seqlen_k, used_k = _keys(k, given, count, batch.max_seqlen_k)
    page_size = 0 if given.table is None else k.shape[1]
    tensors = (None if found is None else found.tensor for found in given)
    return Sequences(count, seqlen_q, seqlen_k, used_k, page_size, *tensors)


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


class _Given(NamedTuple):
    """The integer tensors of a call, in the order of the fields of ``Sequences``."""

    cu_q: Integers | None
    cu_k: Integers | None
    used: Integers | None
    table: Integers | None


def integers(
    name: str,
    value: Any,
    layout: tuple[str, ...],
    q: Any,
    *,
    unchecked: bool,
    rows: int | None = None,
) -> Integers:
    """Return ``value`` as int32 on the device of ``q``; a copy when it is int64 or strided.

    Its first dimension must be ``rows``, where they are given: before anything is read back.

    Raises:
        TypeError: no tensor, or elements of another type.
        ValueError: wrong rank, rows or device, more values than are looked at one by one, or values
            beyond 31 bits.
    """
    check_tensor(name, value, layout)
    check_device(name, value, q)
    if str(value.dtype) not in _INTEGERS:
        raise TypeError(
            f"{name}.dtype={value.dtype}: expected int32; nearest supported choice: "
            f"{name}.to(torch.int32)"
        )
    if rows is not None and value.shape[0] != rows:
        raise ValueError(f"{name}: {_wrong_rows(layout, value.shape[0], rows)}")
    values = None
    if not unchecked and value.device.type != "meta":
        if value.numel() > _MOST_VALUES:
            raise ValueError(
                f"{name}: shape {tuple(value.shape)} has more than the {_MOST_VALUES} values that "
                f"are checked one by one; nearest supported choice: unchecked=True"
            )
        check_readable(name, value)
        values = value.flatten().tolist()
        for i, number in enumerate(values):
            if abs(number) > MAX_SEQLEN:
                raise ValueError(
                    f"{name}[{i}]={number}: positions are signed 32-bit numbers; nearest "
                    f"supported choice: {MAX_SEQLEN}"
                )
    return Integers(name, as_int32(value), values)


def as_int32(value: Any) -> Any:
    """Return integers as the kernel reads them; a copy when they are int64 or strided."""
    import torch

    return value.to(torch.int32).contiguous()


def _wrong_rows(layout: tuple[str, ...], have: int, rows: int) -> str:
    """Return in words that a tensor of this layout has ``have`` rows instead of ``rows``."""
    if layout == ("batch",):
        return f"{have} lengths for {rows} sequences; expected ({rows},)"
    offsets = int(layout[0] == "batch + 1")
    if have < offsets:
        return "empty; expected batch + 1 offsets, the first of them 0"
    return f"{have - offsets} sequences, but the queries have {rows - offsets}"


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


def longest(name: str, given: Any, lengths: list[int] | None) -> int:
    """Return the longest sequence: as ``given``, else counted.

    Raises:
        TypeError: ``given`` is no integer.
        ValueError: ``given`` is less than a sequence, or there is nothing to go by.
    """
    if given is None:
        if lengths is not None:
            return max(lengths, default=0)
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
    """Check a page table, as far as the used keys reach; entries after them are never read.

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


def _queries(q: Any, given: _Given, max_seqlen_q: int | None) -> tuple[int, int]:
    """Check where queries lie; return the number of sequences and the longest of them."""
    if given.cu_q is None:
        return q.shape[0], q.shape[1]
    lengths = sequence_lengths(given.cu_q, q.shape[0], whole=True)
    return given.cu_q.count - 1, longest("max_seqlen_q", max_seqlen_q, lengths)


def _keys(k: Any, given: _Given, count: int, max_seqlen_k: int | None) -> tuple[int, int | None]:
    """Check where keys lie; return the room for keys and, if known, the most of them."""
    lengths, capacity = _rooms(k, given, count)
    if given.used is not None:
        check_counts(given.used, count, lengths, "keys of the sequence")
        lengths = given.used.values
    if max_seqlen_k is None and capacity is not None:
        # The room for keys changes less often than their number, and so fewer launches are planned.
        return capacity, None if lengths is None else max(lengths, default=0)
    return longest("max_seqlen_k", max_seqlen_k, lengths), None


def _rooms(k: Any, given: _Given, count: int) -> tuple[list[int] | None, int | None]:
    """Return the keys that each sequence has room for, if known, and of all alike, if they are."""
    if given.table is not None and given.used is not None:
        _check_rows("page_table", given.table.tensor.shape[0], count)
        check_pages(given.table, given.used, page_size=k.shape[1], num_pages=k.shape[0])
        return None, given.table.tensor.shape[1] * k.shape[1]
    if given.cu_k is not None:
        lengths = sequence_lengths(given.cu_k, k.shape[0], whole=False)
        _check_rows("cu_seqlens_k", given.cu_k.count - 1, count)
        return lengths, None
    _check_rows("k", k.shape[0], count)
    return [k.shape[1]] * count, k.shape[1]


def _check_rows(name: str, have: int, batch: int) -> None:
    if have != batch:
        raise ValueError(f"{name}: {have} sequences, but the queries have {batch}")
