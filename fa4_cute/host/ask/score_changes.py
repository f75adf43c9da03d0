"""What changes the scores: masks, windows, modifiers, softcap, biases and sinks of a call."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ... import masks, score_mods
from ...plan.facts.dtypes import DType
from ...plan.facts.hardware import LOAD_VECTORS
from ...plan.facts.numbers import LOG2_E, MAX_FLOAT32
from ...plan.masks.masks import NULL, DenseBiasMask, Mask, SlidingWindowMask
from ...plan.spec.extras import ScoreMod
from .arguments import Inputs, Options
from .checks import (
    check_count,
    check_device,
    check_no_grad,
    check_readable,
    check_tensor,
    kind_of,
)
from .lengths import check_counts
from .sequences import Sequences, as_int32, integers

_MOST_SINK: Final = MAX_FLOAT32 / LOG2_E
BIAS_TYPES: Final = ("float32", "bfloat16", "float16")
"""What biases are read as; others are copied to the first."""
_OPEN: Final = -1
"""An open side of a window, as older FlashAttention versions write it."""


@dataclass(frozen=True, eq=False)
class ScoreChanges:
    """What changes the scores of a call, checked.

    Attributes:
        mask: which keys a query sees, without tensors and without ``causal``.
        score_mod: modifier of the scores, or None.
        padding, biases, aux, sink: as in ``ask.features.FeatureTensors``.
    """

    mask: Mask = NULL
    score_mod: ScoreMod | None = None
    padding: tuple[Any, ...] = ()
    biases: tuple[Any, ...] = ()
    aux: tuple[Any, ...] = ()
    sink: Any = None


def score_changes(options: Options, inputs: Inputs, where: Sequences) -> ScoreChanges:
    """Check what changes the scores of the sequences of ``where``.

    Raises:
        TypeError, ValueError, NotImplementedError: as the functions of this module, naming the
            argument.
    """
    q, unchecked = inputs[0], options.unchecked
    mask, modifier = full_mask(options), modifier_of(options)
    if modifier is not None:
        check_slopes(modifier, q, where.batch)
    for tensor in mask.lengths:
        check_padding(tensor, q, where.batch, unchecked=unchecked)
    sizes = (where.batch, q.shape[-2], where.seqlen_q, where.most_keys)
    biases = tuple(bias_tensor("bias", tensor, q, sizes) for tensor in mask.biases)
    return ScoreChanges(
        mask=stored_mask(mask, biases),
        score_mod=None if modifier is None else modifier.plan,
        padding=tuple(map(as_int32, mask.lengths)),
        biases=biases,
        aux=() if modifier is None else tuple(_aux(modifier.tensors, q)),
        sink=None if options.sink is None else sink_tensor(options.sink, q, unchecked=unchecked),
    )


def full_mask(options: Options) -> masks.AttentionMask:
    """Return ``mask`` and ``window_size`` together, without ``causal``."""
    found = masks.full() if options.mask is None else masks.as_mask(options.mask)
    window = window_of(options.window_size)
    return found if window is None else found & masks.AttentionMask(window)


def modifier_of(options: Options) -> score_mods.ScoreModifier | None:
    """Return ``score_mod``, with ``softcap`` as its last step; None when nothing is given.

    Raises:
        TypeError, ValueError: auxiliary tensors are no tuple, or nothing reads them.
    """
    score_mod, aux_tensors = options.score_mod, options.aux_tensors
    check_tuple(aux_tensors)
    steps = []
    if isinstance(score_mod, score_mods.ScoreModifier):
        if aux_tensors:
            raise ValueError(
                "aux_tensors: the score_mod brings its own; nearest supported choice: "
                "score_mods.function(code, aux_tensors)"
            )
        steps.append(score_mod)
    elif score_mod is not None:
        steps.append(score_mods.function(score_mod, aux_tensors))
    elif aux_tensors:
        raise ValueError(f"aux_tensors: {len(aux_tensors)} tensors, but no score_mod reads them")
    if options.softcap is not None and not _is_zero(options.softcap):
        steps.append(score_mods.softcap(options.softcap))
    return score_mods.chain(*steps) if steps else None


def check_tuple(aux_tensors: Any) -> None:
    """Refuse auxiliary tensors that are no list or tuple."""
    if not isinstance(aux_tensors, list | tuple):
        raise TypeError(
            f"aux_tensors={kind_of(aux_tensors)}: expected a tuple of tensors; nearest supported "
            f"choice: (aux_tensors,)"
        )


def _is_zero(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and value == 0


def window_of(value: Any) -> Mask | None:
    """Return the mask of ``window_size``: (left, right), None or -1 for an open side.

    Raises:
        TypeError: it is no pair of integers.
        ValueError: a side is below -1.
    """
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) != 2:
        is_side = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        nearest = f"({value}, {value}) or ({value}, 0)" if is_side else "(None, None)"
        raise TypeError(
            f"window_size={value!r}: expected (left, right); nearest supported choice: {nearest}"
        )
    sides: list[int | None] = []
    for name, side in zip(("left", "right"), value, strict=True):
        if side is not None:
            check_count(f"window_size {name}", side, _OPEN, f"{name} {_OPEN}, for no limit")
        sides.append(None if side is None or side == _OPEN else side)
    return None if sides == [None, None] else SlidingWindowMask(*sides)


def float_tensor(name: str, value: Any, layout: tuple[str, ...], q: Any) -> Any:
    """Return ``value`` as float32 on the device of ``q``; copied when it has another type.

    Errors: as :func:`_real_numbers`.
    """
    return as_float32(_real_numbers(name, value, layout, q))


def _real_numbers(name: str, value: Any, layout: tuple[str, ...], q: Any) -> Any:
    """Return ``value``, real numbers on the device of ``q``.

    Raises:
        TypeError: no tensor, or its elements are no real numbers.
        ValueError: wrong rank or device.
        NotImplementedError: it requires grad, or is no plain tensor.
    """
    check_tensor(name, value, layout)
    check_device(name, value, q)
    check_no_grad({name: value})
    if value.is_complex() or str(value.dtype) == "torch.bool":
        hint = ""
        if not value.is_complex():
            hint = "; nearest supported choice: fa4_cute.masks.dense for where keys are visible"
        raise TypeError(f"{name}.dtype={value.dtype}: expected float32{hint}")
    return value


def as_float32(value: Any) -> Any:
    """Return numbers as float32; a copy when they have another type."""
    return value.resolve_neg().float()


def sink_tensor(value: Any, q: Any, *, unchecked: bool) -> Any:
    """Return the sink as float32 (num_q_heads,); errors as :func:`float_tensor`."""
    found = float_tensor("sink", value, ("num_q_heads",), q)
    heads = q.shape[-2]
    if found.shape[0] != heads:
        raise ValueError(f"sink: {found.shape[0]} weights for the {heads} heads of q")
    if not unchecked and value.device.type != "meta":
        check_readable("sink", value)
        check_weights(found.tolist())
    return found.contiguous()


def check_weights(weights: Sequence[float]) -> None:
    """Refuse weights of sinks that are too large, or no numbers.

    Raises:
        ValueError: naming the head.
    """
    # No comparison holds for what is no number.
    if all(map(_MOST_SINK.__ge__, weights)):
        return
    head = next(i for i, weight in enumerate(weights) if not weight <= _MOST_SINK)
    raise ValueError(
        f"sink[{head}]={weights[head]}: must be a number of at most {_MOST_SINK:.4g}; minus "
        f"infinity means no sink"
    )


def check_padding(lengths: Any, q: Any, batch: int, *, unchecked: bool) -> None:
    """Check the lengths of a padding mask; errors as ``integers`` and ``check_counts``."""
    name = "padding lengths"
    check_counts(integers(name, lengths, ("batch",), q, unchecked=unchecked, rows=batch), batch)


def check_slopes(modifier: score_mods.ScoreModifier, q: Any, batch: int) -> None:
    """Refuse ALiBi slopes that are not one per head; the kernel would read past their end.

    Raises:
        ValueError: naming the shape and the heads.
    """
    for step in modifier.steps:
        if step.kind != score_mods.ALIBI:
            continue
        shape = tuple(step.tensors[0].shape)
        want = (batch, q.shape[-2])[-len(shape) :]
        if shape != want:
            raise ValueError(
                f"alibi slopes: shape {shape} for {q.shape[-2]} query heads and batch {batch}; "
                f"nearest supported choice: {want}"
            )


def bias_tensor(name: str, value: Any, q: Any, sizes: tuple[int, int, int, int]) -> Any:
    """Return a bias as the kernel reads it: see :func:`readable_bias`.

    Args:
        name: how the message calls it.
        value: the tensor.
        q: its device counts.
        sizes: batch, query heads, longest query and key sequence.

    Raises:
        as :func:`_real_numbers`; ValueError also for a shape that does not fit.
    """
    layout = ("batch", "num_q_heads", "seqlen_q", "seqlen_k")
    found = _real_numbers(name, value, layout, q)
    for axis, (have, want) in enumerate(zip(found.shape, sizes, strict=True)):
        enough = have == want if axis < 2 else have >= want
        if not enough and (have != 1 or axis == 3):
            broadcast = "" if axis == 3 else " or 1"
            raise ValueError(
                f"{name}: {layout[axis]}={have} (axis {axis} of shape {tuple(found.shape)}); "
                f"nearest supported choice: {want}{broadcast}"
            )
    return readable_bias(found)


def readable_bias(bias: Any) -> Any:
    """Return a bias of a type of ``BIAS_TYPES`` with a contiguous last dimension, maybe a copy."""
    found = bias.resolve_neg() if dtype_of(bias) in BIAS_TYPES else as_float32(bias)
    return found if found.stride(3) == 1 or found.shape[3] == 1 else found.contiguous()


def stored_mask(mask: masks.AttentionMask, biases: Iterable[Any]) -> Mask:
    """Return the mask, which says how the readable ``biases`` lie in memory."""
    return masks.with_biases(mask.plan, [_stored(slot, bias) for slot, bias in enumerate(biases)])


def _stored(slot: int, bias: Any) -> DenseBiasMask:
    size, meta = bias.element_size(), bias.device.type == "meta"
    steps = [stride for extent, stride in zip(bias.shape, bias.stride(), strict=True) if extent > 1]
    row = bias.shape[3]
    places = [0 if meta else bias.data_ptr(), *(n * size for n in (*steps[:-1], row))]
    fitting = [n // size for n in LOAD_VECTORS if not any(place % n for place in places)]
    return DenseBiasMask(slot, DType.parse(dtype_of(bias)), next(iter(fitting), 1))


def dtype_of(tensor: Any) -> str:
    """Return the name of a tensor's element type."""
    return str(tensor.dtype).removeprefix("torch.")


def _aux(given: tuple[Any, ...], q: Any) -> Iterator[Any]:
    """Yield the auxiliary tensors as float32."""
    for i, tensor in enumerate(given):
        layout = tuple(f"size{axis}" for axis in range(tensor.dim()))
        yield float_tensor(f"aux_tensors[{i}]", tensor, layout, q)
