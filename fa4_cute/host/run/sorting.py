"""The arguments of a call, sorted: what selects, what is read or written, what is a factor.

How to sort depends on names and types alone, so it is found out once for all calls that share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from types import FunctionType
from typing import Any, Final, NamedTuple

import torch

from ...masks import AttentionMask, as_mask
from ...score_mods import ScoreModifier, function
from ..ask.arguments import Inputs
from ..ask.checks import check_readable
from ..ask.score_changes import check_tuple

NUMBERS: Final = ("softmax_scale", "q_scale", "k_scale", "v_scale")
"""Arguments that are factors: numbers, or tensors of one. No kernel and no plan depends on them."""
LENGTHS: Final = ("max_seqlen_q", "max_seqlen_k")
"""Arguments that are longest sequences."""
TENSORS: Final = frozenset((torch.Tensor, torch.nn.Parameter))
"""Types whose memory is what it seems."""
WRITTEN: Final = frozenset(("out", "lse"))
_CONSTANTS: Final = frozenset((bool, int, float, str, type(None)))
_LOOKED_AT: Final = frozenset(("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "sink"))
"""Arguments whose values are checked unless ``unchecked``."""
_MOST_SORTERS: Final = 1024

Numbers = list[tuple[str, float]]
Values = tuple[Any, ...]
Places = tuple[int, ...]


class Arguments(NamedTuple):
    """The arguments of a call, sorted.

    Attributes:
        constants: what sorted them, and values of those that are neither tensor nor factor.
        tensors: what is read: q, k, v, plain arguments in their order, those of masks, those of
            score modifiers.
        written: tensors for results.
        numbers: factors by name.
        looks: whether values of tensors are to be checked.
    """

    constants: Values
    tensors: list[Any]
    written: Values
    numbers: Numbers
    looks: bool


class Sorter:
    """Sorts the values of calls with the same names and types of arguments.

    It is part of what a call is known by: no other one has these names and types.

    Args:
        names: of the arguments.
        sorts: what becomes of each, as of :func:`sort_of`.

    Attributes:
        read, written: names of the first of ``Arguments.tensors``, and of all that are written.
        lengths: which of ``Arguments.constants`` are longest sequences.
        scales: places of tensors that may be factors.
        looks: whether there are values to be checked, those of padding lengths apart.
    """

    __slots__ = (
        "_absent", "_constants", "_factors", "_has_more", "_masks", "_modifiers", "_scalars",
        "_tensors", "_windows", "_written", "lengths", "looks",
        "read", "scales", "written",
    )  # fmt: skip

    def __init__(self, names: tuple[str, ...], sorts: tuple[str, ...]) -> None:
        """Note the places of every sort."""

        def places(wanted: str) -> Places:
            return tuple(place for place, sort in enumerate(sorts) if sort == wanted)

        def named(wanted: str) -> tuple[tuple[str, int], ...]:
            return tuple((names[place], place) for place in places(wanted))

        of_tokens = tuple(i for i, sort in enumerate(sorts) if sort in ("tensor", "scale"))
        self.read = (*"qkv", *(names[place] for place in of_tokens))
        self.written = tuple(names[place] for place in places("written"))
        constants = [names[place] for place in places("constant")]
        self.lengths = frozenset(1 + constants.index(n) for n in LENGTHS if n in constants)
        self.scales = places("scale")
        self._constants, self._written = _taker(places("constant")), _taker(places("written"))
        self._tensors = _taker(of_tokens)
        self._factors, self._scalars = named("factor"), named("scalar")
        self._masks, self._modifiers = places("mask"), places("modifier")
        self._windows, self._absent = places("window"), places("absent")
        self._has_more = bool({*sorts} & {"window", "mask", "modifier", "scalar", "absent"})
        looked_at = (names[i] in _LOOKED_AT for i, sort in enumerate(sorts) if sort == "tensor")
        self.looks = any(looked_at)

    def take(self, inputs: Inputs, values: Values, unchecked: bool) -> Arguments | None:
        """Return the arguments, or None for what always takes the long way.

        Errors: those of reading a tensor of one number.
        """
        constants: Values = (self, *self._constants(values)) if self._constants else (self,)
        tensors = [*inputs, *self._tensors(values)] if self._tensors else [*inputs]
        written = self._written(values) if self._written else ()
        numbers: Numbers = []
        looks = self.looks
        for name, place in self._factors:
            numbers.append((name, values[place]))
        if self._has_more:
            constants += self._parts(values, tensors)
            constants += self._read(values, numbers)
            for place in self._masks:
                looks = looks or bool(values[place].lengths)
            for place in self._absent:
                if values[place]:
                    return None
        for _, number in numbers:
            if number == 0:  # zeros are equal and differ in sign
                return None
        # What Arguments(...) does, in a third of the time.
        looks = looks and not unchecked
        return _new_tuple(Arguments, (constants, tensors, written, numbers, looks))

    def _parts(self, values: Values, tensors: list[Any]) -> Values:
        """Return constants of arguments that have parts; add their tensors."""
        constants: list[Any] = []
        for place in self._windows:
            constants += values[place], *map(type, values[place])
        for place in self._masks:
            mask = values[place]
            constants.append(mask.plan)
            tensors += mask.lengths
            tensors += mask.biases
        for place in self._modifiers:
            constants.append(values[place].plan)
            tensors += values[place].tensors
        return tuple(constants)

    def _read(self, values: Values, numbers: Numbers) -> Values:
        """Return constants of the tensors of one number, which are read; add the numbers."""
        constants: list[Any] = []
        for name, place in self._scalars:
            tensor = values[place]
            constants += tensor.dtype, tensor.device
            check_readable(name, tensor, f"{name} as a number")
            numbers.append((name, tensor.item()))
        return tuple(constants)


def arguments(inputs: Inputs, options: Mapping[str, Any], first: Any) -> Arguments | None:
    """Sort the arguments of a call; None for what always takes the long way.

    ``first`` stands for the function that is called. Errors: those of reading a tensor of one
    number.
    """
    values = (*options.values(),)
    key = (first, *options, *map(type, values))
    sorter: Sorter | None = _sorters.get(key, _NEW)
    if sorter is _NEW:
        sorter = _new(key, options)
    if sorter is None:
        return None
    if sorter.scales:
        scalars = tuple([place for place in sorter.scales if values[place].numel() == 1])
        if scalars:
            key = (*key, *scalars)
            sorter = _sorters.get(key) or _new(key, options, scalars)
    return sorter.take(inputs, values, options.get("unchecked") is True)


def in_full(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments with a mask for booleans, and with a modifier for a Python function.

    None where there are neither. Errors: those of what stands for no mask and no modifier.
    """
    mask, code = options.get("mask"), options.get("score_mod")
    changes: dict[str, Any] = {}
    if isinstance(mask, torch.Tensor):
        changes["mask"] = as_mask(mask)
    if isinstance(code, FunctionType):
        aux_tensors = options.get("aux_tensors", ())
        check_tuple(aux_tensors)
        changes |= {"score_mod": function(code, aux_tensors), "aux_tensors": ()}
    return {**options, **changes} if changes else None


def sort_of(name: str, kind: type) -> str | None:
    """Return what becomes of an argument of this name and type; None for the long way.

    A ``scale`` is a tensor of factors, a ``scalar`` one of a single factor, and what is ``absent``
    must be empty.
    """
    if kind is float and name in NUMBERS:
        return "factor"
    if kind in _CONSTANTS:
        return "constant"
    if kind in TENSORS:
        # Booleans that stand for a mask become one only on the long way.
        other = "scale" if name in NUMBERS else None if name == "mask" else "tensor"
        return "written" if name in WRITTEN else other
    if kind is AttentionMask:
        return "mask"
    if kind is ScoreModifier:
        return "modifier"
    if kind is tuple and name == "window_size":
        return "window"
    return "absent" if name == "aux_tensors" else None


_new_tuple = tuple.__new__
_NEW: Final[Any] = object()
_sorters: dict[tuple[Any, ...], Sorter | None] = {}
"""What sorts arguments of these names and types; None for those that take the long way."""


def _new(key: tuple[Any, ...], options: Mapping[str, Any], scalars: Places = ()) -> Any:
    """Return a sorter, known from now on under ``key``; None for what takes the long way."""
    sorts = [sort_of(name, type(value)) for name, value in options.items()]
    for place in scalars:
        sorts[place] = "scalar"
    known = tuple(sort for sort in sorts if sort is not None)
    sorter = Sorter((*options,), known) if len(known) == len(sorts) else None
    if len(_sorters) >= _MOST_SORTERS:
        _sorters.clear()
    # Of several threads that come here at once, all get the same one.
    return _sorters.setdefault(key, sorter)


def _taker(places: Places) -> Callable[[Values], Values] | None:
    """Return what takes the values at ``places``; None where there are none."""
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places) if places else None
