"""What a call is known by: everything but its addresses and, where they are factors, its numbers.

Shapes, strides, types, devices, alignment and options count. Of the contents of tensors only what a
plan depends on does: the longest sequences, where they are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import torch

from ...masks import AttentionMask
from ...score_mods import ScoreModifier
from ..ask.arguments import Inputs, options_and_batch
from ..ask.checks import check_readable
from ..ask.score_changes import sink_tensor
from ..ask.sequences import check_counts, integers, sequences

NUMBERS: Final = ("softmax_scale", "q_scale", "k_scale", "v_scale")
"""Arguments that are factors: numbers, or tensors of one. No kernel and no plan depends on them."""
TMA_ALIGN: Final = 16
_CONSTANTS: Final = frozenset((bool, int, str, type(None)))
_TENSORS: Final = frozenset((torch.Tensor, torch.nn.Parameter))
_NUMBERS: Final = frozenset(NUMBERS)
_WRITTEN: Final = frozenset(("out", "lse"))
_LOOKED_AT: Final = frozenset(("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "sink"))
"""Arguments whose values are checked unless ``unchecked``."""

Numbers = list[tuple[str, float]]


def _tensor_guards() -> Any:
    try:
        return getattr(import_module("torch._C._dynamo.guards"), "TensorGuards", None)
    except ImportError:
        return None


TensorGuards: Any = _tensor_guards()
"""What checks all tensors of a call in one step; None in a torch that has no such thing."""


class Arguments(NamedTuple):
    """The arguments of a call, sorted.

    Attributes:
        constants: names of all arguments and values of those that are neither tensor nor factor.
        tensors: what is read: q, k, v, then in the order of the arguments.
        written: tensors for results.
        numbers: factors by name.
        looks: whether values of tensors are to be checked.
    """

    constants: tuple[Any, ...]
    tensors: list[Any]
    written: list[Any]
    numbers: Numbers
    looks: bool


def arguments(inputs: Inputs, options: Mapping[str, Any], first: Any) -> Arguments | None:
    """Sort the arguments of a call; None for what always takes the long way.

    ``first`` is the first of the constants. Errors: those of reading a tensor of one number.
    """
    constants = [first]
    tensors = [*inputs]
    written: list[Any] = []
    numbers: Numbers = []
    looks = False
    for name, value in options.items():
        kind = type(value)
        if kind in _CONSTANTS:
            constants += name, kind, value
        elif kind is float or (name in _NUMBERS and kind in _TENSORS and value.numel() == 1):
            if not _add_number(constants, numbers, name, value):
                return None
        elif kind in _TENSORS and name != "mask":
            constants.append(name)
            if name in _WRITTEN:
                written.append(value)
            else:
                tensors.append(value)
                looks = looks or name in _LOOKED_AT
        elif kind is AttentionMask:
            constants += name, value.plan
            tensors += value.lengths
            tensors += value.biases
            looks = looks or bool(value.lengths)
        elif kind is ScoreModifier:
            constants += name, value.plan
            for tensor in value.tensors:
                (tensors if type(tensor) in _TENSORS else constants).append(tensor)
        elif kind is tuple and name == "window_size":
            constants += name, value, *map(type, value)
        elif kind in _TENSORS or value or name != "aux_tensors":
            # Booleans that stand for a mask become one only on the long way.
            return None
    looks = looks and options.get("unchecked") is not True
    return Arguments(tuple(constants), tensors, written, numbers, looks)


def _add_number(constants: list[Any], numbers: Numbers, name: str, value: Any) -> bool:
    """Add a number, or a tensor of one; return whether the call can be known.

    Those that are factors may change from call to call; but zeros are equal and differ in sign.
    """
    if name not in _NUMBERS:
        constants += name, float, value
        return True
    if type(value) is float:
        constants += name, float
    else:
        constants += name, value.dtype, value.device
        check_readable(name, value, f"{name} as a number")
        value = value.item()
    numbers.append((name, value))
    return bool(value != 0)


def key_of(given: Arguments, inputs: Inputs, options: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the whole key of a call; None for what always takes the long way.

    Raises:
        TypeError, ValueError, RuntimeError: a tensor has no strides, or values are wrong.
    """
    grad = torch.is_grad_enabled()
    key = [*given.constants]
    for tensor in (*given.tensors, *given.written):
        if type(tensor) not in _TENSORS or tensor.is_neg() or (grad and tensor.requires_grad):
            return None
        place = tensor.data_ptr() % TMA_ALIGN
        key += type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, place
    if given.looks:
        key += _lengths(inputs, options)
    return tuple(key)


def guard_of(given: Arguments) -> Any:
    """Return what checks in one step that tensors are like those of ``given``, or None.

    It is what guards the code that ``torch.compile`` makes: types, dispatch keys, element types,
    devices, ``requires_grad``, shapes and strides. It keeps no tensor. A torch that lacks it, or
    makes it otherwise, is served by the whole key.
    """
    if TensorGuards is None or given.looks:
        return None
    everything = (*given.tensors, *given.written)
    first = {id(tensor): i for i, tensor in reversed([*enumerate(everything)])}
    places = sorted(first.values())
    tensors = [everything[i] for i in places]
    sizes, strides = [[*t.shape] for t in tensors], [[*t.stride()] for t in tensors]
    try:
        guard = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    except (TypeError, RuntimeError):
        return None
    if len(places) == len(everything):
        return guard.check
    # The same offsets for queries and keys, say; a guard takes every tensor once.
    same = [(i, first[id(t)]) for i, t in enumerate(everything) if first[id(t)] != i]

    def check(*others: Any) -> bool:
        alike = all(others[i] is others[j] for i, j in same)
        return alike and bool(guard.check(*[others[i] for i in places]))

    return check


def roles(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors of ``Arguments.tensors``, in its order, by the kernel's parameters."""
    found = dict(zip("qkv", inputs, strict=True))
    for name, value in options.items():
        if isinstance(value, AttentionMask):
            found |= {f"padding{i}": tensor for i, tensor in enumerate(value.lengths)}
            found |= {f"bias{i}": tensor for i, tensor in enumerate(value.biases)}
        elif isinstance(value, ScoreModifier):
            tensors = enumerate(value.tensors)
            found |= {f"aux{i}": tensor for i, tensor in tensors if type(tensor) in _TENSORS}
        elif type(value) in _TENSORS and name not in _WRITTEN:
            is_number = name in _NUMBERS and value.numel() == 1
            found |= {} if is_number else {name: value}
    return found


def _lengths(inputs: Inputs, options: Mapping[str, Any]) -> Sequence[Any]:
    """Return the longest sequences by their contents; errors as the public functions."""
    _, batch = options_and_batch(options)
    where = sequences(inputs, batch, unchecked=False)
    if options.get("sink") is not None:
        sink_tensor(options["sink"], inputs[0], unchecked=False)
    mask = options.get("mask")
    for tensor in () if mask is None else mask.lengths:
        found = integers("padding lengths", tensor, ("batch",), inputs[0], unchecked=False)
        check_counts(found, where.batch, None, "")
    return where.seqlen_q, where.seqlen_k, where.used_k
