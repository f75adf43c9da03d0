"""A call as the operator's arguments, and back."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from ... import masks, score_mods
from ...plan.facts.numbers import as_float
from ..ask.arguments import Batch, Inputs, Options
from ..ask.checks import kind_of
from ..ask.score_changes import check_tuple
from . import texts
from .schema import ARGUMENTS, FLOATS, OF_BATCH, OF_OPTIONS, SCALES

_OPEN = -1


def packed(inputs: Inputs, options: Options, batch: Batch) -> dict[str, Any]:
    """Return the operator's arguments of a call by name, in order, but for ``out`` and ``lse``.

    Raises:
        TypeError, ValueError: a number, mask or modifier is none.
    """
    q, k, v = inputs
    values: dict[str, Any] = {"q": q, "k": k, "v": v}
    for name in OF_OPTIONS:
        values[name] = getattr(options, name)
    for name in OF_BATCH:
        values[name] = getattr(batch, name)
    for name in FLOATS:
        values[name] = _number(name, getattr(options, name))
    for name in SCALES:
        value = getattr(options, name)
        is_tensor = hasattr(value, "numel")
        values[name] = value if is_tensor else None
        values[f"{name}_number"] = None if is_tensor else _number(name, value)
    if options.window_size is not None:
        values["window_size"] = [_OPEN if side is None else side for side in options.window_size]
    if options.mask is not None:
        mask = masks.as_mask(options.mask)
        values["mask"] = texts.mask_text(mask.plan)
        values["mask_lengths"] = list(mask.lengths)
        values["mask_biases"] = list(mask.biases)
    values["score_mod"], values["aux_tensors"] = _modifier(options)
    return {name: values.get(name, default) for name, (_, default) in ARGUMENTS.items()}


def _modifier(options: Options) -> tuple[str | None, list[Any]]:
    """Return the modifier of the scores as text, and the tensors that it reads."""
    check_tuple(options.aux_tensors)
    modifier, tensors = options.score_mod, list(options.aux_tensors)
    if modifier is None:
        return None, tensors
    if not isinstance(modifier, score_mods.ScoreModifier):
        modifier, tensors = score_mods.function(modifier, tensors), []
    # Tensors that belong to no step are kept, and refused where the text is read.
    # Not ``modifier.tensors``: a cached property takes a lock, which torch.compile cannot trace.
    own = [tensor for step in modifier.steps for tensor in step.tensors]
    return texts.modifier_text(modifier), [*own, *tensors]


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r}: expected a real number, got {kind_of(value)}")
    return as_float(value)


def unpacked(values: Mapping[str, Any]) -> tuple[Inputs, Options, Batch]:
    """Return the call of the operator's arguments; whatever else ``values`` holds is an option.

    Raises:
        ValueError: a text says nothing, or names a function that this process does not know.
    """
    mask, modifier, aux = values["mask"], values["score_mod"], values["aux_tensors"]
    if mask is not None:
        of_mask = (tuple(values[name]) for name in ("mask_lengths", "mask_biases"))
        mask = masks.AttentionMask(texts.mask_of(mask), *of_mask)
    if modifier is not None:
        modifier, aux = texts.modifier_of(modifier, aux), ()
    window = values["window_size"]
    scales = {
        name: values[f"{name}_number"] if values[name] is None else values[name] for name in SCALES
    }
    options = Options(
        **{name: values[name] for name in (*OF_OPTIONS, *FLOATS)},
        **{name: value for name, value in values.items() if name not in ARGUMENTS},
        **scales,
        mask=mask,
        window_size=None if window is None else tuple(None if n == _OPEN else n for n in window),
        score_mod=modifier,
        aux_tensors=tuple(aux),
    )
    batch = Batch(**{name: values[name] for name in OF_BATCH})
    return (values["q"], values["k"], values["v"]), options, batch
