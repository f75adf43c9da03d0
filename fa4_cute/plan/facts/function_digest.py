"""A name for what a Python function computes, so that a kernel traced from it can be found again.

Equal digests mean equal code and equal constants: byte code, defaults, closures, and the globals
the code reads, functions among them followed in turn. A function that depends on anything else is
refused, because a kernel compiled from it would be used when that thing has changed.

A digest is remembered by the code of its function, with all that was read for it: while each of
these is the same object, so is the digest.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import json
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

DIGEST_CHARACTERS: Final = 16
_FIXED_MODULES: Final = ("math", "operator", "cutlass", "fa4_cute")
"""Packages whose versions and sources are part of every kernel's key, or never change."""


_ABSENT: Final = object()
_MOST_KNOWN: Final = 256


class _Read(NamedTuple):
    """What was read of a function; all of it immutable, so that being the same object is enough."""

    code: CodeType
    defaults: Any
    namespace: dict[str, Any]
    cells: tuple[Any, ...]
    globals: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, function: FunctionType) -> _Read:
        """Read ``function``."""
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        namespace = function.__globals__
        names = _globals_read(function.__code__)
        values = tuple((name, namespace.get(name, _ABSENT)) for name in names)
        return cls(function.__code__, function.__defaults__, namespace, cells, values)

    def is_still(self, function: FunctionType) -> bool:
        """Return whether ``function`` would be read alike; never for defaults that have names."""
        if (
            function.__code__ is not self.code
            or function.__defaults__ is not self.defaults
            or function.__globals__ is not self.namespace
            or function.__kwdefaults__
        ):
            return False
        pairs = zip(function.__closure__ or (), self.cells, strict=True)
        same_cells = all(cell.cell_contents is value for cell, value in pairs)
        read = self.namespace.get
        return same_cells and all(read(name, _ABSENT) is value for name, value in self.globals)


class _Known(NamedTuple):
    """A digest, what was read of its function, and of each that this one calls."""

    digest: str
    read: _Read
    others: tuple[tuple[FunctionType, _Read], ...]

    def is_of(self, function: FunctionType) -> bool:
        """Return whether this is still the digest of ``function``."""
        return self.read.is_still(function) and all(r.is_still(f) for f, r in self.others)


_known: dict[CodeType, _Known] = {}


def digest_of(function: Any) -> str:
    """Return the digest of ``function``.

    Raises:
        TypeError: it is no Python function.
        ValueError: it depends on something that has no fixed value; names it.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(
            f"score_mod={function!r}: expected a Python function, got {type(function).__name__}; "
            f"nearest supported choice: a def or lambda with the arguments (score, batch, head, "
            f"q_idx, kv_idx, aux)"
        )
    known = _known.get(function.__code__)
    if known is not None and known.is_of(function):
        return known.digest
    walked: dict[FunctionType, None] = {}
    text = json.dumps(_function(function, _Seen((), walked)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    others = tuple((f, _Read.of(f)) for f in walked if f is not function)
    _known[function.__code__] = _Known(digest, _Read.of(function), others)
    return digest


class _Seen(NamedTuple):
    """The functions that call the one at hand, outermost first, and all that were met so far."""

    callers: tuple[FunctionType, ...]
    walked: dict[FunctionType, None]


def _function(function: FunctionType, seen: _Seen) -> list[Any]:
    if function in seen.callers:
        return ["recursion", seen.callers.index(function)]
    seen.walked[function] = None
    seen = seen._replace(callers=(*seen.callers, function))
    name = function.__name__
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    closure = [(variable, _cell(name, variable, cell, seen)) for variable, cell in cells]
    defaults = [_value(name, "default", v, seen) for v in function.__defaults__ or ()]
    keywords = [
        (key, _value(name, key, v, seen))
        for key, v in sorted((function.__kwdefaults__ or {}).items())
    ]
    found = [
        (variable, _global(function, variable, seen))
        for variable in _globals_read(function.__code__)
    ]
    return [_code(function.__code__), closure, defaults, keywords, found]


def _code(code: CodeType) -> list[Any]:
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return [code.co_code.hex(), constants, arguments, names, code.co_exceptiontable.hex()]


def _globals_read(code: CodeType) -> list[str]:
    """Return the global names that the code reads, those of inner functions included."""
    reads = {i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL_READS}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            reads.update(_globals_read(constant))
    return sorted(reads)


_GLOBAL_READS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


def _cell(name: str, variable: str, cell: Any, seen: _Seen) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        raise ValueError(f"score_mod {name}: its variable {variable!r} has no value yet") from None
    return _value(name, variable, value, seen)


def _global(function: FunctionType, variable: str, seen: _Seen) -> Any:
    if variable in function.__globals__:
        return _value(function.__name__, variable, function.__globals__[variable], seen)
    if hasattr(builtins, variable):
        return ["builtin", variable]
    raise ValueError(f"score_mod {function.__name__}: the global {variable!r} does not exist")


def _value(name: str, variable: str, value: Any, seen: _Seen) -> Any:
    """Return what identifies ``value``, its type included: 1 and 1.0 are traced differently."""
    if value is None or isinstance(value, bool | int | float | str):
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        return ["tuple", [_value(name, variable, item, seen) for item in value]]
    if isinstance(value, ModuleType) and _is_fixed(value.__name__):
        return ["module", value.__name__]
    module = getattr(value, "__module__", None) or ""
    if _is_fixed(module) and hasattr(value, "__qualname__"):
        return ["fixed", module, value.__qualname__]
    if isinstance(value, FunctionType):
        return ["function", _function(value, seen)]
    kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    raise ValueError(
        f"score_mod {name}: {variable!r} is a {kind}, whose value could change unnoticed; nearest "
        f"supported choice: a number, a tuple of numbers, a function, or aux_tensors=(...) for data"
    )


def _is_fixed(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in _FIXED_MODULES
