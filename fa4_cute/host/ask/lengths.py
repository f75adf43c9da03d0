"""How long sequences are, by the values of the tensors that say where they lie.

Nothing here knows a tensor: shapes and lists of integers are all it takes, so that repeated calls
check their values by the same functions as the first one. Every rule is asked of all values at
once, and of one after the other where it is broken, for the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import gt
from typing import Any, NamedTuple

from ...plan.facts.numbers import MAX_SEQLEN
from .checks import check_count


class Integers(NamedTuple):
    """An integer tensor of a call.

    Attributes:
        name: argument.
        shape: its shape.
        values: flat list, or None when unchecked.
    """

    name: str
    shape: tuple[int, ...]
    values: list[int] | None

    @property
    def rows(self) -> int:
        """Size of the first dimension: sequences, or offsets."""
        return self.shape[0]


class Given(NamedTuple):
    """The integer tensors of a call, in the order of the fields of ``Sequences``."""

    cu_seqlens_q: Integers | None
    cu_seqlens_k: Integers | None
    seqused_k: Integers | None
    page_table: Integers | None


class Room(NamedTuple):
    """What queries and keys have room for.

    Attributes:
        q, k: first two sizes of either tensor: sequences and rows, or all rows and heads, or pages
            and keys per page.
        max_seqlen_q, max_seqlen_k: longest sequences as they were given.
    """

    q: tuple[int, int]
    k: tuple[int, int]
    max_seqlen_q: Any
    max_seqlen_k: Any


class Lengths(NamedTuple):
    """The longest sequences of a call; each as in ``Sequences``."""

    seqlen_q: int
    seqlen_k: int
    used_k: int | None


def longest_sequences(given: Given, room: Room) -> Lengths:
    """Check values and what must agree between them; return the longest sequences.

    Raises:
        TypeError, ValueError: as the functions of this module, naming the argument.
    """
    count, seqlen_q = _queries(given, room)
    return Lengths(seqlen_q, *_keys(given, room, count))


def check_positions(found: Integers) -> None:
    """Check that values are positions, as the kernel counts them.

    Raises:
        ValueError: one is beyond 31 bits.
    """
    values = found.values
    if not values or (max(values) <= MAX_SEQLEN and min(values) >= -MAX_SEQLEN):
        return
    i, number = next((i, n) for i, n in enumerate(values) if abs(n) > MAX_SEQLEN)
    raise ValueError(
        f"{found.name}[{i}]={number}: positions are signed 32-bit numbers; nearest supported "
        f"choice: {MAX_SEQLEN}"
    )


def check_counts(
    found: Integers, batch: int, limits: Sequence[int] | None = None, of: str = ""
) -> None:
    """Check one length per sequence.

    Args:
        found: the lengths.
        batch: number of sequences.
        limits: the most that each may be, or None when that is not known.
        of: what the limit is, for the message.

    Raises:
        ValueError: wrong number of lengths, a negative one, or one above its limit.
    """
    if found.rows != batch:
        raise ValueError(
            f"{found.name}: {found.rows} lengths for {batch} sequences; expected ({batch},)"
        )
    values = found.values
    if not values or (min(values) >= 0 and not (limits and any(map(gt, values, limits)))):
        return
    for i, length in enumerate(values):
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
    name, offsets = found.name, found.values
    if found.rows == 0:
        raise ValueError(f"{name}: empty; expected batch + 1 offsets, the first of them 0")
    if offsets is None:
        return None
    if offsets[0] != 0:
        raise ValueError(f"{name}[0]={offsets[0]}: must be 0")
    lengths = [end - start for start, end in pairwise(offsets)]
    if lengths and min(lengths) < 0:
        i = next(i for i, length in enumerate(lengths, 1) if length < 0)
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
    return lengths


def longest(name: str, given: Any, lengths: Sequence[int] | None) -> int:
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
    check_count(name, given, 0)
    if lengths and max(lengths) > given:
        i, length = next((i, n) for i, n in enumerate(lengths) if n > given)
        raise ValueError(
            f"{name}={given}: sequence {i} has {length} rows; nearest supported choice: "
            f"{max(lengths)}"
        )
    return int(given)


def check_pages(table: Integers, used: Integers, *, page_size: int, num_pages: int) -> None:
    """Check a page table, as far as the used keys reach; entries after them are never read.

    Raises:
        ValueError: a row too short for its sequence, or a page that does not exist.
    """
    rows, pages_per_row = table.shape
    check_counts(used, rows, [pages_per_row * page_size] * rows, "keys of the row's pages")
    pages = table.values
    if not pages or used.values is None or (min(pages) >= 0 and max(pages) < num_pages):
        return
    for row, length in enumerate(used.values):
        for i in range(-(-length // page_size)):
            page = pages[row * pages_per_row + i]
            if not 0 <= page < num_pages:
                raise ValueError(
                    f"page_table[{row}, {i}]={page}: pages are numbered from 0 to {num_pages - 1}"
                )


def _queries(given: Given, room: Room) -> tuple[int, int]:
    """Check where queries lie; return the number of sequences and the longest of them."""
    offsets = given.cu_seqlens_q
    if offsets is None:
        return room.q
    lengths = sequence_lengths(offsets, room.q[0], whole=True)
    return offsets.rows - 1, longest("max_seqlen_q", room.max_seqlen_q, lengths)


def _keys(given: Given, room: Room, count: int) -> tuple[int, int | None]:
    """Check where keys lie; return the room for keys and, if known, the most of them."""
    lengths, capacity = _rooms(given, room, count)
    if given.seqused_k is not None:
        check_counts(given.seqused_k, count, lengths, "keys of the sequence")
        lengths = given.seqused_k.values
    if room.max_seqlen_k is None and capacity is not None:
        # The room for keys changes less often than their number, and so fewer launches are planned.
        return capacity, None if lengths is None else max(lengths, default=0)
    return longest("max_seqlen_k", room.max_seqlen_k, lengths), None


def _rooms(given: Given, room: Room, count: int) -> tuple[list[int] | None, int | None]:
    """Return the keys that each sequence has room for, if known, and of all alike, if they are."""
    rows, keys = room.k
    if given.page_table is not None and given.seqused_k is not None:
        _check_rows("page_table", given.page_table.rows, count)
        check_pages(given.page_table, given.seqused_k, page_size=keys, num_pages=rows)
        return None, given.page_table.shape[1] * keys
    if given.cu_seqlens_k is not None:
        lengths = sequence_lengths(given.cu_seqlens_k, rows, whole=False)
        _check_rows("cu_seqlens_k", given.cu_seqlens_k.rows - 1, count)
        return lengths, None
    _check_rows("k", rows, count)
    return [keys] * count, keys


def _check_rows(name: str, have: int, batch: int) -> None:
    if have != batch:
        raise ValueError(f"{name}: {have} sequences, but the queries have {batch}")
