"""Masks: which keys a query sees, as data that the host plans with and the kernel is traced from.

A mask is a leaf or a combination of masks. ``a & b`` is visible where both are, ``a | b`` where
either is. (The Mojo source names its combinations after what they hide: its ``OrMask`` is ``&``
here.) As additive scores, 0 where visible and minus infinity elsewhere, ``&`` adds and ``|`` takes
the maximum, and this is how a dense bias takes part.

Every leaf shows a row one interval of keys, and both ends of the interval only move right as rows
move down. Intersections of such intervals are of the same kind, so any mask is a union of
intervals, its *terms*: :func:`terms`. Rows and keys are counted so that the last query stands at
the last key (bottom-right alignment): query ``i`` is row ``i + seqlen_k - seqlen_q``.

The arithmetic of the intervals is written once and runs on host integers and on registers; what
differs (minimum, maximum) is an argument. Source: ``docs/sources.md`` section 8.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..facts.dtypes import DType

_HEADROOM: Final = 1024
"""What may be added to a row: lengths stay this much below 2**31."""
MAX_TERMS: Final = 8
"""Most intervals of one row: the kernel holds two registers for each."""
_MOST_COMBINATIONS: Final = 256
"""Most intervals that are compared to find those that others cover."""
MAX_LEAVES: Final = 64
"""Most masks that are joined to one."""


@dataclass(frozen=True)
class Arithmetic:
    """Operations on whole numbers that host integers and registers spell differently."""

    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    select: Callable[[Any, Any, Any], Any]


def _select(condition: bool, then: int, otherwise: int) -> int:
    return then if condition else otherwise


HOST: Final = Arithmetic(min, max, _select)
Lengths = Sequence[Any] | Mapping[int, Any]
"""Valid keys of the sequence, per slot of :class:`PaddingMask`."""


def _check_size(what: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}={value!r}: expected an integer, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{what}={value}: must be {least} or more")
    if value >= 2**31:
        raise ValueError(f"{what}={value}: must be below 2**31; nearest supported choice: None")


@dataclass(frozen=True)
class Interval:
    """Keys ``start <= key < stop``; empty when ``stop <= start``. Ends are ints or registers."""

    start: Any
    stop: Any


@dataclass(frozen=True)
class Mask(ABC):
    """Base of all masks."""

    def __and__(self, other: Mask) -> Mask:
        """Visible where both are; a mask without effect drops out."""
        if isinstance(other, NullMask):
            return self
        return other if isinstance(self, NullMask) else AndMask(self, other)

    def __or__(self, other: Mask) -> Mask:
        """Visible where either is."""
        return OrMask(self, other)

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return the keys that ``row`` sees: from 0 or later; the caller ends them at the last key.

        Args:
            row: row counted from the first key; may be negative.
            num_keys: keys of the sequence.
            lengths: valid keys of the sequence per padding slot.
            ops: arithmetic of the arguments.

        Raises:
            TypeError: for a combination; its :func:`terms` have intervals.
        """
        raise TypeError(f"{self!r} is no single interval")

    @property
    @abstractmethod
    def name(self) -> str:
        """Part of the kernel's entry name: letters, digits and underscores."""


@dataclass(frozen=True)
class NullMask(Mask):
    """Every key is visible."""

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return all keys."""
        return Interval(0, num_keys)

    @property
    def name(self) -> str:
        """``full``."""
        return "full"


@dataclass(frozen=True)
class SlidingWindowMask(Mask):
    """Keys from ``left`` before to ``right`` after the row's own; None leaves that side open.

    ``SlidingWindowMask(None, 0)`` is the causal mask; ``SlidingWindowMask(w - 1, 0)`` is what the
    source calls a causal sliding window of ``w`` keys.

    Raises:
        TypeError, ValueError: when a side is no integer, or negative.
    """

    left: int | None = None
    right: int | None = None

    def __post_init__(self) -> None:
        """Refuse sides outside the domain."""
        for name in ("left", "right"):
            value = getattr(self, name)
            if value is None:
                continue
            _check_size(f"SlidingWindowMask {name}", value, 0)

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return the window of ``row``; no intermediate value leaves 32 bits."""
        start = 0 if self.left is None else ops.maximum(row, self.left) - self.left
        if self.right is None:
            return Interval(start, num_keys)
        if self.right >= _HEADROOM:
            row = ops.minimum(row, num_keys - (self.right + 1))
        return Interval(start, row + (self.right + 1))

    @property
    def name(self) -> str:
        """``causal``, or ``window`` with its sides."""
        if (self.left, self.right) == (None, 0):
            return "causal"
        sides = ["n" if side is None else str(side) for side in (self.left, self.right)]
        return "window_" + "_".join(sides)


@dataclass(frozen=True)
class ChunkedMask(Mask):
    """Keys in the row's own chunk of ``size`` keys.

    Raises:
        TypeError, ValueError: when ``size`` is no integer, or less than 1.
    """

    size: int

    def __post_init__(self) -> None:
        """Refuse sizes outside the domain."""
        _check_size("ChunkedMask size", self.size, 1)

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return the chunk of ``row``; rows before the first key lie in chunks that are empty."""
        start = ops.maximum(row, 0) // self.size * self.size
        size = (ops.maximum(ops.minimum(row, 0), -1) + 1) * self.size
        return Interval(start, start + ops.minimum(size, num_keys - start))

    @property
    def name(self) -> str:
        """``chunked`` and the size."""
        return f"chunked_{self.size}"


@dataclass(frozen=True)
class PaddingMask(Mask):
    """The first ``lengths[slot]`` keys of each sequence; the lengths come with the call."""

    slot: int = 0

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return the valid keys of the sequence."""
        return Interval(0, lengths[self.slot])

    @property
    def name(self) -> str:
        """``padding`` and the slot."""
        return f"padding{self.slot}"


@dataclass(frozen=True)
class DenseBiasMask(Mask):
    """A bias (batch, heads, seqlen_q, seqlen_k), added to the scaled scores.

    Args:
        slot: which of the call's biases.
        dtype: its element type in memory.
        at_once: how many may be loaded at once: rows start and end at multiples of them.
    """

    slot: int = 0
    dtype: DType = DType.FP32
    at_once: int = 1

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return all keys."""
        return Interval(0, num_keys)

    @property
    def name(self) -> str:
        """``bias`` and the slot, and how it lies in memory unless that is as float32."""
        stored = f"_{self.dtype.value}" * (self.dtype is not DType.FP32)
        return f"bias{self.slot}{stored}" + f"_x{self.at_once}" * (self.at_once > 1)


@dataclass(frozen=True)
class AndMask(Mask):
    """Visible where both masks are."""

    first: Mask
    second: Mask

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name}_and_{self.second.name}"


@dataclass(frozen=True)
class OrMask(Mask):
    """Visible where either mask is."""

    first: Mask
    second: Mask

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name}_or_{self.second.name}"


CAUSAL: Final = SlidingWindowMask(None, 0)
NULL: Final = NullMask()


@dataclass(frozen=True)
class Term:
    """Masks that must all be visible: one interval per row, and the biases added there."""

    leaves: tuple[Mask, ...] = field(default=())

    def interval(self, row: Any, num_keys: Any, lengths: Lengths, ops: Arithmetic) -> Interval:
        """Return the keys that ``row`` sees, within ``[0, num_keys)``; the end may be below 0."""
        start, stop = 0, num_keys
        for leaf in self.leaves:
            seen = leaf.interval(row, num_keys, lengths, ops)
            # "is" and not "==": registers of the same value are different registers.
            start = seen.start if is_zero(start) else _later(start, seen.start, ops)
            stop = stop if seen.stop is num_keys else ops.minimum(stop, seen.stop)
        return Interval(start, stop)

    @property
    def biases(self) -> tuple[DenseBiasMask, ...]:
        """Biases of the term."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, DenseBiasMask))


def terms(mask: Mask) -> tuple[Term, ...]:
    """Return ``mask`` as a union of terms.

    Raises:
        NotImplementedError: when there are more than :data:`MAX_TERMS`.
    """
    found = _terms(mask)
    # A term that demands more than another one adds nothing, unless it adds a bias.
    kept = [
        term
        for i, term in enumerate(found)
        if not any(_covers(other, term, j < i) for j, other in enumerate(found) if i != j)
    ]
    if len(kept) > MAX_TERMS:
        raise NotImplementedError(
            f"mask {mask.name}: a union of {len(kept)} intervals; nearest supported choice: at "
            f"most {MAX_TERMS}"
        )
    return tuple(kept)


def leaves(mask: Mask) -> tuple[Mask, ...]:
    """Return the leaves of ``mask`` from left to right, repetitions included."""
    found: list[Mask] = []
    waiting = [mask]
    while waiting:
        node = waiting.pop()
        if isinstance(node, AndMask | OrMask):
            waiting += (node.second, node.first)
        else:
            found.append(node)
    return tuple(found)


def _terms(mask: Mask) -> list[Term]:
    if isinstance(mask, OrMask):
        return [*_terms(mask.first), *_terms(mask.second)]
    if isinstance(mask, AndMask):
        first, second = _terms(mask.first), _terms(mask.second)
        if len(first) * len(second) > _MOST_COMBINATIONS:
            raise NotImplementedError(
                f"mask: a union of more than {_MOST_COMBINATIONS} intervals; nearest supported "
                f"choice: at most {MAX_TERMS}"
            )
        return [
            Term(tuple(_without_repetitions(a.leaves + b.leaves))) for a in first for b in second
        ]
    return [Term(() if isinstance(mask, NullMask) else (mask,))]


def _without_repetitions(found: Sequence[Mask]) -> Iterator[Mask]:
    """Yield every mask once, but every bias each time: what is demanded twice is added twice."""
    for i, leaf in enumerate(found):
        if isinstance(leaf, DenseBiasMask) or leaf not in found[:i]:
            yield leaf


def _covers(wide: Term, narrow: Term, first: bool) -> bool:
    """Whether ``narrow`` is superfluous besides ``wide``; of equal terms the first one stays."""
    if wide.biases or narrow.biases:
        return wide == narrow and first
    small, large = set(wide.leaves), set(narrow.leaves)
    return small < large or (small == large and first)


def is_zero(value: Any) -> bool:
    """Return whether ``value`` is 0 on the host; a register is not, whatever it holds."""
    return isinstance(value, int) and value == 0


def _later(start: Any, other: Any, ops: Arithmetic) -> Any:
    return start if is_zero(other) else ops.maximum(start, other)
