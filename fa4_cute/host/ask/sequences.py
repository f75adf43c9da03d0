"""Where sequences lie: lengths, row offsets and page tables, and what follows from them.

A wrong value here makes the kernel read or write outside of the tensors, so values are checked
before a launch, for which a CUDA call waits for the device; with ``unchecked=True`` they are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .arguments import Batch, Inputs
from .checks import check_device, check_readable, check_tensor
from .lengths import Given, Integers, Room, check_positions, longest_sequences

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
        total_q: queries of all of them where they are packed, else 0.
        cu_seqlens_q, cu_seqlens_k, seqused_k, page_table: int32 tensors, or None.
    """

    batch: int
    seqlen_q: int
    seqlen_k: int
    used_k: int | None = None
    page_size: int = 0
    total_q: int = 0
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
        TypeError, ValueError: as :func:`given_integers` and ``lengths.longest_sequences``, naming
            the argument.
    """
    q, k, _ = inputs
    if batch.is_plain:
        return Sequences.dense(q, k)
    given = given_integers(q, batch, unchecked=unchecked)
    found = longest_sequences(given, room_of(inputs, batch))
    offsets = given.cu_seqlens_q
    count = q.shape[0] if offsets is None else offsets.rows - 1
    page_size = 0 if given.page_table is None else k.shape[1]
    tensors = (getattr(batch, name) for name in Given._fields)
    read = (None if tensor is None else as_int32(tensor) for tensor in tensors)
    total_q = 0 if offsets is None else q.shape[0]
    return Sequences(count, *found, page_size, total_q, *read)


def room_of(inputs: Inputs, batch: Batch) -> Room:
    """Return what queries and keys have room for."""
    q, k, _ = inputs
    return Room(q.shape[:2], k.shape[:2], batch.max_seqlen_q, batch.max_seqlen_k)


def given_integers(q: Any, batch: Batch, *, unchecked: bool) -> Given:
    """Check the integer tensors of a call but for how their values fit together; read the values.

    Raises:
        TypeError, ValueError: arguments that do not go together, or as :func:`integers`.
    """
    if batch.cu_seqlens_k is not None and batch.page_table is not None:
        raise ValueError(
            "cu_seqlens_k: keys of a paged cache have no row offsets; nearest supported choice: "
            "seqused_k with page_table"
        )
    if batch.page_table is not None and batch.seqused_k is None:
        raise ValueError("page_table: a paged cache needs seqused_k, the keys of each sequence")

    def read(name: str, rows: int | None, *layout: str) -> Integers | None:
        value = getattr(batch, name)
        if value is None:
            return None
        return integers(name, value, layout, q, unchecked=unchecked, rows=rows)

    of_q = read("cu_seqlens_q", None, "batch + 1")
    rows = q.shape[0] if of_q is None else of_q.rows - 1
    if rows < 0:
        raise ValueError("cu_seqlens_q: empty; expected batch + 1 offsets, the first of them 0")
    return Given(
        of_q,
        read("cu_seqlens_k", rows + 1, "batch + 1"),
        read("seqused_k", rows, "batch"),
        read("page_table", rows, "batch", "pages_per_row"),
    )


def integers(
    name: str,
    value: Any,
    layout: tuple[str, ...],
    q: Any,
    *,
    unchecked: bool,
    rows: int | None = None,
) -> Integers:
    """Check an integer tensor and return its values, unless they are ``unchecked``.

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
    found = Integers(name, tuple(value.shape), values)
    check_positions(found)
    return found


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
