"""The flat arguments of a compiled Triton kernel: tensor descriptors become several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DESCRIPTOR = "nvTmaDesc"
_ELEMENT_AND_SHAPE = re.compile(r"tensordesc<([^[>]*)\[([^\]]*)\]")

Expansion = tuple[list[Any], Callable[[Iterable[Any]], Iterable[Any]]]


def expansion(signature: Mapping[str, Any], metadata: Sequence[Any] | None) -> Expansion:
    """Types of a kernel's arguments, and what turns the arguments of a call into such values.

    Args:
        signature: argument -> Triton's type.
        metadata: of each tensor descriptor, as the compiler gives them; none if it made pointers,
            shapes and strides of them.

    Returns:
        The types, tuples for what becomes several, and the function.
    """
    try:
        from triton.backends.driver import expand_signature, wrap_handle_tensordesc_impl
    except ImportError:  # before 3.8
        return _of_older(list(signature.values()), metadata)
    from triton.backends.nvidia.driver import make_tensordesc_arg

    kinds = expand_signature(signature.values(), metadata, DESCRIPTOR)
    expanded = wrap_handle_tensordesc_impl(
        lambda *args: args[-1], dict(signature), metadata, make_tensordesc_arg
    )
    return kinds, expanded


def _of_older(kinds: list[Any], metadata: Sequence[Any] | None) -> Expansion:
    places = [k for k, kind in enumerate(kinds) if str(kind).startswith("tensordesc")]
    given = dict(zip(places, metadata or [None] * len(places), strict=True))

    def expanded(args: Iterable[Any]) -> Iterable[Any]:
        from triton.backends.nvidia.driver import make_tensordesc_arg

        return [make_tensordesc_arg(a, given[k]) if k in given else a for k, a in enumerate(args)]

    parts = [_parts(kind, given[k]) if k in given else kind for k, kind in enumerate(kinds)]
    return parts, expanded


def _parts(kind: str, metadata: Any) -> tuple[str, ...]:
    """What a tensor descriptor becomes: sizes and strides follow the map, or follow twice."""
    described = _ELEMENT_AND_SHAPE.match(kind)
    if described is None:
        raise NotImplementedError(f"an argument of Triton type {kind!r}")
    rank = described[2].count(",") + 1
    first = (DESCRIPTOR,) if metadata else (f"*{described[1]}", *["i64"] * (2 * rank), "i1")
    return (*first, *["i32"] * rank, *["i64"] * rank)
