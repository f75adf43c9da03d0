"""The values that a repeated call looks at: they are checked again, and nothing else is.

Types, shapes and devices of the tensors are those of a call that was checked in full; the values
go through the functions that checked them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from ..ask.checks import check_readable
from ..ask.lengths import (
    Given,
    Integers,
    Lengths,
    Room,
    check_counts,
    check_positions,
    longest_sequences,
)
from ..ask.score_changes import check_weights

_PADDING: Final = "padding"
_SINK: Final = "sink"


class _Place(NamedTuple):
    """An integer tensor of a call: the name that messages give it, and its shape."""

    name: str
    shape: tuple[int, ...]

    def holding(self, values: list[Any]) -> Integers:
        """Return it with its values, a list for every row; errors as ``check_positions``."""
        flat = values if len(self.shape) == 1 else [*chain.from_iterable(values)]
        found = Integers(self.name, self.shape, flat)
        check_positions(found)
        return found


class Look:
    """Looks at the values of calls that are alike but for them.

    Args:
        roles: what the tensors of such a call are for, in their order.
        tensors: those of one of the calls.
        options: its keyword arguments.
    """

    def __init__(
        self, roles: Sequence[str], tensors: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        """Note the places of what is looked at."""
        named = dict(zip(roles, tensors, strict=False))
        padding = [role for role in named if role.startswith(_PADDING)]
        read = [*(name for name in (*Given._fields, _SINK) if name in named), *padding]
        shapes = {role: tuple(named[role].shape) for role in read}
        self._read = tuple(read)
        self._places = [[*named].index(role) for role in read]
        self._first = read[0], self._places[0]
        self._given = [_Place(n, shapes[n]) if n in shapes else None for n in Given._fields]
        self._padding = {role: _Place("padding lengths", shapes[role]) for role in padding}
        (q, k), longest = tensors[:2], (options.get(name) for name in Room._fields[2:])
        self._room = Room(tuple(q.shape[:2]), tuple(k.shape[:2]), *longest)
        self._found: tuple[list[list[Any]], Lengths] | None = None

    def __call__(self, tensors: Sequence[Any]) -> Lengths:
        """Return the longest sequences.

        Raises:
            ValueError: a value is wrong.
            NotImplementedError: a CUDA graph is being captured.
        """
        name, place = self._first
        check_readable(name, tensors[place])  # All lie on one device.
        values = [tensors[place].tolist() for place in self._places]
        known = self._found
        # The layers of a model share their sequences: equal values were checked once.
        if known is not None and known[0] == values:
            return known[1]
        found = self._checked(dict(zip(self._read, values, strict=True)))
        self._found = values, found
        return found

    def _checked(self, values: Mapping[str, list[Any]]) -> Lengths:
        """Check the values of each role; return the longest sequences by them."""
        found = Lengths(self._room.q[1], self._room.k[1], None)
        if any(self._given):
            places = (place and place.holding(values[place.name]) for place in self._given)
            found = longest_sequences(Given(*places), self._room)
        for role, place in self._padding.items():
            # As many as there are sequences: their number is part of the shape.
            check_counts(place.holding(values[role]), place.shape[0])
        if _SINK in values:
            check_weights(values[_SINK])
        return found
