"""A name for what a Python function computes, so that a kernel traced from it can be found again.

Equal digests mean equal code and equal constants: byte code, defaults, closures, and the globals
the code reads, functions among them followed in turn. A function that depends on anything else is
refused, because a kernel compiled from it would be used when that thing has changed.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import json
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

DIGEST_CHARACTERS: Final = 16
_FIXED_MODULES: Final = ("math", "operator", "cutlass", "fa4_cute")
"""Packages whose versions and sources are part of every kernel's key, or never change."""


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
    text = json.dumps(_function(function, ()))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _function(function: FunctionType, seen: tuple[FunctionType, ...]) -> list[Any]:
    if function in seen:
        return ["recursion", seen.index(function)]
    seen = (*seen, function)
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


def _cell(name: str, variable: str, cell: Any, seen: tuple[FunctionType, ...]) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        raise ValueError(f"score_mod {name}: its variable {variable!r} has no value yet") from None
    return _value(name, variable, value, seen)


def _global(function: FunctionType, variable: str, seen: tuple[FunctionType, ...]) -> Any:
    if variable in function.__globals__:
        return _value(function.__name__, variable, function.__globals__[variable], seen)
    if hasattr(builtins, variable):
        return ["builtin", variable]
    raise ValueError(f"score_mod {function.__name__}: the global {variable!r} does not exist")


def _value(name: str, variable: str, value: Any, seen: tuple[FunctionType, ...]) -> Any:
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
