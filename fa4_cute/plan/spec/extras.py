"""``Extras``: the parameters that features add to a kernel, as one record with an attribute each.

The same record serves three times. :attr:`Variant.extras` says which parameters a kernel has, with
their PTX types in the place of values; the host makes one with the call's numbers; while a kernel
is traced, it holds registers. What a kernel lacks is no attribute of its record: reading it, or
misspelling one, is an ``AttributeError``.

The order of the attributes is the order of the kernel's parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, Generic, TypeVar

Address = TypeVar("Address")
"""What stands for an address or another 64-bit number."""
Count = TypeVar("Count")
"""What stands for a 32-bit integer."""
Factor = TypeVar("Factor")
"""What stands for a 32-bit float."""

ABSENT: Final[Any] = object()
"""Given for a parameter that the record is to lack."""
BIAS_AXES: Final = ("batch", "head", "query")
"""Dimensions of a bias that have strides."""
CACHE_AXES: Final = ("page", "head", "key")
"""Dimensions of a paged K or V that have strides; columns are contiguous."""


@dataclass(frozen=True)
class SlotArray(ABC, Generic[Address]):
    """An array that a kernel may have several of, numbered by ``slot``, with strides in bytes.

    A stride is 0 where all entries of its dimension are one.
    """

    slot: int
    address: Address
    strides: tuple[Address, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters: the address, then the strides."""
        return self.name, *(f"{self.name}_{axis}" for axis in self.axes)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the parameter with the address."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the strides."""
        return ()


class PaddingLengths(SlotArray[Address]):
    """Valid keys of every sequence: int32 (batch,)."""

    @property
    def name(self) -> str:
        """``padding`` and the slot."""
        return f"padding{self.slot}"


class Bias(SlotArray[Address]):
    """Dense bias of the mask: float32 (batch, heads, queries, keys); keys are contiguous."""

    @property
    def name(self) -> str:
        """``bias`` and the slot."""
        return f"bias{self.slot}"

    @property
    def axes(self) -> tuple[str, ...]:
        """The dimensions with strides."""
        return BIAS_AXES


class CachedRows(SlotArray[Address]):
    """K (slot 0) or V (1) of a paged cache, whose rows lanes copy."""

    @property
    def name(self) -> str:
        """``k`` or ``v``."""
        return "kv"[self.slot]

    @property
    def axes(self) -> tuple[str, ...]:
        """The dimensions with strides."""
        return CACHE_AXES


class Aux(SlotArray[Address]):
    """Auxiliary tensor of the score modifier: float32 of any rank."""

    @property
    def name(self) -> str:
        """``aux`` and the slot."""
        return f"aux{self.slot}"

    @property
    def axes(self) -> tuple[str, ...]:
        """One for each dimension."""
        return tuple(f"stride{axis}" for axis in range(len(self.strides)))


@dataclass(frozen=True)
class ScoreMod:
    """A function traced into the kernel that changes every scaled score.

    Two modifiers are equal when their names and digests are.

    Args:
        name: part of the kernel's entry name.
        digest: identifies the function's code and the constants it closes over.
        aux_ranks: number of dimensions of each auxiliary tensor.
        function: called while tracing as ``function(score, batch, head, q_idx, kv_idx, aux)``;
            None where only the identity matters. ``aux[...]`` are tensors, and q_idx +
            ``aux.offset`` is the query's row, counted from the first key.
        cap: of a function that is a softcap and nothing else, its cap; 0 for any other. Scores
            are capped two at a time, with the factors before and behind put into those of the cap.
        slopes: whether it is ALiBi and nothing else: tensor 0 has a slope for each head, (heads,)
            or (batch, heads). The distance of a key is counted in float32 then.
    """

    name: str
    digest: str
    aux_ranks: tuple[int, ...] = ()
    function: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    cap: float = field(default=0.0, compare=False, repr=False)
    slopes: bool = field(default=False, compare=False, repr=False)

    @property
    def traced(self) -> Callable[..., Any]:
        """The function to trace.

        Raises:
            ValueError: when only the identity of the modifier is known.
        """
        if self.function is None:
            raise ValueError(f"score_mod={self.name!r} has no function to trace")
        return self.function


def _absent() -> Any:
    return ABSENT


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Extras(Generic[Address, Count, Factor]):
    """The parameters that features and element type add, in the kernel's order.

    Attributes:
        cu_seqlens_q, total_q: first rows of the packed queries, int32 (batch + 1,); all queries.
        o: O, written row by row: (all queries, num_q_heads, depth of O).
        cu_seqlens_k: first rows of the packed keys, int32 (batch + 1,).
        seqused_k: keys of each sequence that count, int32 (batch,).
        page_table, pages_per_row: int32 (batch, pages_per_row).
        cache: K and V of the pages, where lanes copy them.
        sink: float32 (num_q_heads,).
        q_scale: scales of the queries, float32 (all queries, num_q_heads).
        k_scale, k_scale_row: scales of the keys, float32 (batch or pages, num_kv_heads, row).
        padding, biases, aux: the arrays of the mask and of the score modifier.
        num_work, num_heads, num_sequences: query tiles of all heads and sequences of a persistent
            launch, and these two; or heads of a section, and sections (``in_sections``). Sequences
            also where query tiles are counted by rows; with stream-K heads are those of a line.
        num_kept: query tiles of each head, the shortest, that come after all others.
        first_step: sequences between two that are looked at first for that of a query tile.
        num_splits: CTAs that share the keys of a query tile.
        partial_rows: (query, head) rows of one split.
        partial_o: float32 (split, row, depth of O).
        partial_lse: float32 (split, row).
        counters: uint32, one for each query tile: CTAs that have written their partial results.
        value_scale: what O is multiplied by.
    """

    cu_seqlens_q: Address = field(default_factory=_absent)
    total_q: Address = field(default_factory=_absent)
    o: Address = field(default_factory=_absent)
    cu_seqlens_k: Address = field(default_factory=_absent)
    seqused_k: Address = field(default_factory=_absent)
    page_table: Address = field(default_factory=_absent)
    pages_per_row: Count = field(default_factory=_absent)
    cache: tuple[CachedRows[Address], ...] = ()
    sink: Address = field(default_factory=_absent)
    q_scale: Address = field(default_factory=_absent)
    k_scale: Address = field(default_factory=_absent)
    k_scale_row: Count = field(default_factory=_absent)
    padding: tuple[PaddingLengths[Address], ...] = ()
    biases: tuple[Bias[Address], ...] = ()
    aux: tuple[Aux[Address], ...] = ()
    num_work: Count = field(default_factory=_absent)
    num_heads: Count = field(default_factory=_absent)
    num_sequences: Count = field(default_factory=_absent)
    num_kept: Count = field(default_factory=_absent)
    first_step: Count = field(default_factory=_absent)
    num_splits: Count = field(default_factory=_absent)
    partial_rows: Address = field(default_factory=_absent)
    partial_o: Address = field(default_factory=_absent)
    partial_lse: Address = field(default_factory=_absent)
    counters: Address = field(default_factory=_absent)
    value_scale: Factor = field(default_factory=_absent)

    def __post_init__(self) -> None:
        """Take away what the kernel lacks."""
        for name in [name for name, value in vars(self).items() if value is ABSENT]:
            object.__delattr__(self, name)

    def items(self) -> tuple[tuple[str, Any], ...]:
        """Return name and value of every parameter, in the kernel's order."""
        return tuple(self._leaves())

    def with_value_scale(self, value: Factor) -> Extras[Address, Count, Factor]:
        """Return the same parameters, and the scale of V."""
        return Extras(**{**vars(self), "value_scale": value})

    def with_cache(self, *cache: CachedRows[Address]) -> Extras[Address, Count, Factor]:
        """Return the same parameters, and those of K and V that lanes copy."""
        return Extras(**{**vars(self), "cache": cache})

    def without(self, names: Iterable[str]) -> Extras[Address, Count, Factor]:
        """Return the parameters whose names are not among ``names``."""
        return Extras(**{n: value for n, value in vars(self).items() if n not in names})

    def filled(self, values: Iterable[Any]) -> Extras[Any, Any, Any]:
        """Return a record of the same parameters that holds ``values``, given in order.

        Raises:
            ValueError: when there are more or fewer values than parameters.
        """
        by_name = dict(zip((name for name, _ in self.items()), values, strict=True))
        given: dict[str, Any] = {
            name: tuple(_refilled(array, by_name) for array in value)
            if isinstance(value, tuple)
            else by_name[name]
            for name, value in vars(self).items()
        }
        return Extras(**given)

    def matching(self, declared: Extras[Any, Any, Any]) -> Extras[Address, Count, Factor]:
        """Return of these parameters those that ``declared`` has, in its order.

        Raises:
            AttributeError: naming the first that is missing here.
        """
        known = dict(self.items())
        missing = [name for name, _ in declared.items() if name not in known]
        if missing:
            raise AttributeError(f"{missing[0]}: the kernel has this parameter, the call does not")
        return declared.filled(known[name] for name, _ in declared.items())

    def _leaves(self) -> Iterator[tuple[str, Any]]:
        for name in (declared.name for declared in fields(self)):
            value = getattr(self, name, ABSENT)
            if isinstance(value, tuple):
                for array in value:
                    yield from zip(array.names, (array.address, *array.strides), strict=True)
            elif value is not ABSENT:
                yield name, value


def _refilled(array: SlotArray[Any], by_name: dict[str, Any]) -> SlotArray[Any]:
    address, *strides = (by_name[name] for name in array.names)
    return type(array)(array.slot, address, tuple(strides))
