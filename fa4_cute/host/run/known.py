"""What a call is known by: everything but its addresses and, where they are factors, its numbers.

Shapes, strides, types, devices, alignment and options count. Of the contents of tensors only what a
plan depends on does: the longest sequences, where they are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch

from ...masks import AttentionMask
from ...plan.facts.hardware import ADDRESS_ALIGN
from ...score_mods import ScoreModifier
from ..ask.arguments import Inputs, batch_of
from ..ask.lengths import Lengths, longest_sequences
from ..ask.score_changes import check_padding, sink_tensor
from ..ask.sequences import given_integers, room_of
from .sorting import NUMBERS, TENSORS, WRITTEN, Arguments


def _tensor_guards() -> Any:
    try:
        return getattr(import_module("torch._C._dynamo.guards"), "TensorGuards", None)
    except ImportError:
        return None


TensorGuards: Any = _tensor_guards()
"""What checks all tensors of a call in one step; None in a torch that has no such thing."""


def key_of(given: Arguments, inputs: Inputs, options: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the whole key of a call; None for what always takes the long way.

    Where values are looked at, it ends with the longest sequences.

    Raises:
        TypeError, ValueError, RuntimeError: a tensor has no strides, or values are wrong.
    """
    grad = torch.is_grad_enabled()
    # A guard made outside of inference mode recognises no call inside of it, and the reverse.
    key = [*given.constants, torch.is_inference_mode_enabled()]
    for tensor in (*given.tensors, *given.written):
        if type(tensor) not in TENSORS or tensor.is_neg() or (grad and tensor.requires_grad):
            return None
        address = tensor.data_ptr()
        if not address:  # freed, or nothing there
            return None
        place = address % ADDRESS_ALIGN
        key += type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.device, place
    if given.looks:
        key.append(_lengths(inputs, options))
    return tuple(key)


def guard_of(given: Arguments) -> Any:
    """Return what checks in one step that tensors are like those of ``given``, or None.

    It is what guards the code that ``torch.compile`` makes: types, dispatch keys, element types,
    devices, ``requires_grad``, shapes and strides. It keeps no tensor. A torch that lacks it, or
    makes it otherwise, is served by the whole key.
    """
    if TensorGuards is None:
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
        if type(value) in TENSORS and name not in WRITTEN:
            is_number = name in NUMBERS and value.numel() == 1
            found |= {} if is_number else {name: value}
    for mask in [value for value in options.values() if isinstance(value, AttentionMask)]:
        found |= {f"padding{i}": tensor for i, tensor in enumerate(mask.lengths)}
        found |= {f"bias{i}": tensor for i, tensor in enumerate(mask.biases)}
    for modifier in [value for value in options.values() if isinstance(value, ScoreModifier)]:
        tensors = enumerate(modifier.tensors)
        found |= {f"aux{i}": tensor for i, tensor in tensors if type(tensor) in TENSORS}
    return found


def _lengths(inputs: Inputs, options: Mapping[str, Any]) -> Lengths:
    """Return the longest sequences by their contents; errors as the public functions."""
    q, k, _ = inputs
    batch = batch_of(options)
    count, found = q.shape[0], Lengths(q.shape[1], k.shape[1], None)
    if not batch.is_plain:
        given = given_integers(q, batch, unchecked=False)
        found = longest_sequences(given, room_of(inputs, batch))
        if given.cu_seqlens_q is not None:
            count = given.cu_seqlens_q.rows - 1
    if options.get("sink") is not None:
        sink_tensor(options["sink"], q, unchecked=False)
    mask = options.get("mask")
    for tensor in () if mask is None else mask.lengths:
        check_padding(tensor, q, count, unchecked=False)
    return found
