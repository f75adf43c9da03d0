"""Which handler answers which function of the APIs, and how its arguments are read.

A handler takes the session and then the function's arguments in order. Each is a word; where the C
type is narrower, the annotation says which part of the word counts. A handler may have fewer
parameters than the function: what it need not know is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints

U32 = Annotated[int, 32]
U16 = Annotated[int, 16]
U8 = Annotated[int, 8]
I32 = Annotated[int, -32]

ON_STACK: Final = 6
"""Words before a structure that a function takes by value: those of the registers."""

Handler = Callable[..., int | None]

_SUFFIXES: Final = ("_ptsz", "_ptds")
"""Functions for programs whose threads have a default stream each; here every call is done when it
returns, so the streams do not matter."""


@dataclass(frozen=True)
class Entry:
    """A handler and the kind of its arguments: bits, negative where signed, 0 for all words."""

    handler: Handler
    kinds: tuple[int, ...]
    variadic: bool

    def call(self, session: object, words: Sequence[int]) -> int:
        """Call the handler; what it returns, or 0."""
        if self.variadic:
            return self.handler(session, *words) or 0
        pairs = zip(words, self.kinds, strict=False)
        return self.handler(session, *(_part(word, kind) for word, kind in pairs)) or 0


class Table:
    """The handlers of an API by function name."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def register(self, *names: str) -> Callable[[Handler], Handler]:
        """Make the decorated function the handler of the named ones."""

        def add(handler: Handler) -> Handler:
            entry = _entry(handler)
            for name in names:
                if name in self.entries:
                    raise ValueError(f"{name} has two handlers")
                self.entries[name] = entry
            return handler

        return add

    def find(self, name: str) -> Entry | None:
        """The handler of a function."""
        for suffix in _SUFFIXES:
            name = name.removesuffix(suffix)
        return self.entries.get(name)


def _entry(handler: Handler) -> Entry:
    parameters = list(inspect.signature(handler).parameters.values())[1:]
    hints = get_type_hints(handler, include_extras=True)
    variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return Entry(handler, tuple(_bits(hints[p.name]) for p in parameters), variadic)


def _bits(hint: Any) -> int:
    metadata = getattr(hint, "__metadata__", ())
    return int(metadata[0]) if metadata else 64


def _part(word: int, bits: int) -> int:
    width = abs(bits)
    word &= (1 << width) - 1
    return word - (1 << width) if bits < 0 and word >> width - 1 else word


TABLE: Final = Table()
"""The handlers of every API; no two of these have a function of the same name."""

entry: Final = TABLE.register
