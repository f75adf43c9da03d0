"""Masks and score modifiers as text, which graphs can hold, and back.

The text is JSON: a list whose first element names what it is. Masks and the package's own modifiers
are described whole, so that a saved graph means the same in any process. A user's function is named
by the digest of its code, under which :mod:`fa4_cute.score_mods` knows it.

The functions that write text are traced by ``torch.compile``, and so hold plain arithmetic on
strings: what a compiled call depends on is then the text, not the identity of an object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any, Final

from ... import score_mods
from ...plan.masks.masks import (
    NULL,
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    NullMask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
)

_CACHED_MASKS: Final = 256


def mask_text(mask: Mask) -> str:
    """Return ``mask`` as text; its tensors are named by their slots.

    Raises:
        TypeError: no kind of mask that a kernel knows.
    """
    if isinstance(mask, AndMask):
        return f'["and", {mask_text(mask.first)}, {mask_text(mask.second)}]'
    if isinstance(mask, OrMask):
        return f'["or", {mask_text(mask.first)}, {mask_text(mask.second)}]'
    if isinstance(mask, SlidingWindowMask):
        return f'["window", {_side(mask.left)}, {_side(mask.right)}]'
    if isinstance(mask, ChunkedMask):
        return f'["chunked", {_digits(mask.size)}]'
    if isinstance(mask, PaddingMask):
        return f'["padding", {_digits(mask.slot)}]'
    if isinstance(mask, DenseBiasMask):
        return f'["bias", {_digits(mask.slot)}]'
    if isinstance(mask, NullMask):
        return '["full"]'
    raise TypeError(f"mask={mask!r}: expected a mask of fa4_cute.masks")


def _side(value: int | None) -> str:
    return "null" if value is None else _digits(value)


def _digits(value: int) -> str:
    # A compiled call may hold a size that is not fixed; as an index, it becomes so.
    return f"{index(value)}"


@lru_cache(maxsize=_CACHED_MASKS)
def mask_of(text: str) -> Mask:
    """Return the mask that :func:`mask_text` wrote.

    Raises:
        ValueError: it wrote nothing of the kind.
    """
    return _mask(_read("mask", text), text)


def _mask(found: Any, text: str) -> Mask:
    match found:
        case ["and", first, second]:
            return AndMask(_mask(first, text), _mask(second, text))
        case ["or", first, second]:
            return OrMask(_mask(first, text), _mask(second, text))
        case ["window", left, right]:
            return SlidingWindowMask(left, right)
        case ["chunked", size]:
            return ChunkedMask(size)
        case ["padding", int(slot)]:
            return PaddingMask(slot)
        case ["bias", int(slot)]:
            return DenseBiasMask(slot)
        case ["full"]:
            return NULL
    raise ValueError(f"mask={text!r}: no text of a mask")


def modifier_text(modifier: score_mods.ScoreModifier) -> str:
    """Return ``modifier`` as text, without its tensors, which go with it."""
    return "[" + ", ".join([_step_text(step) for step in modifier.steps]) + "]"


def _step_text(step: score_mods.Step) -> str:
    if step.kind == "softcap":
        # Not the number: a compiled call could take it for one that changes.
        return f'["softcap", {step.digest.removeprefix(score_mods.SOFTCAP)}]'
    if step.kind == "alibi":
        return '["alibi"]'
    return f'["function", "{step.digest}", "{step.name}", {len(step.tensors)}]'


def is_of_functions(text: str) -> bool:
    """Return whether a modifier's text names a user's function."""
    return any(step[:1] == ["function"] for step in _read("score_mod", text))


def modifier_of(text: str, tensors: Sequence[Any]) -> score_mods.ScoreModifier:
    """Return the modifier that :func:`modifier_text` wrote, with its tensors.

    Raises:
        ValueError: it wrote nothing of the kind; there are more or fewer tensors; or a function is
            not known in this process.
    """
    left = list(tensors)
    steps: list[score_mods.Step] = []
    for found in _read("score_mod", text):
        match found:
            case ["softcap", cap]:
                steps += score_mods.softcap(cap).steps
            case ["alibi"] if left:
                steps += score_mods.alibi(left.pop(0)).steps
            case ["function", str(digest), str(name), int(count)] if count <= len(left):
                own, left = left[:count], left[count:]
                steps.append(score_mods.known_function(digest, name, own))
            case _:
                raise ValueError(
                    f"score_mod={text!r}: no text of a modifier with {len(tensors)} tensors"
                )
    if left:
        raise ValueError(f"aux_tensors: {len(tensors)} tensors, but score_mod={text!r} reads fewer")
    return score_mods.ScoreModifier(tuple(steps))


def _read(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{name}={text!r}: no text of a {name}") from None
