"""What a call that was carried out is like: all of it but addresses and factors.

No tensor is kept, only shapes, sizes and what the tensors were for. What the kernel cannot read as
it was given is copied in every call, by the functions that copied it in the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from string import digits
from typing import Any, Final, NamedTuple

import torch

from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.tensor_maps import OperandLayout
from ..ask.outputs import span
from ..ask.problem import Problem
from ..ask.request import Request
from ..ask.scales import key_layout, ones_for
from ..ask.score_changes import as_float32, readable_bias
from ..ask.sequences import as_int32
from .launch import Launched
from .operands import Call, copied

Given = Mapping[str, Any]
SLOTS: Final = ("padding", "bias", "aux")
"""Parameters of which a kernel may have several, numbered from 0."""
_OPERANDS: Final = ("q", "k", "v", "q_rope", "k_rope")
_TOKEN_SCALES: Final = ("q_scale", "k_scale")
_INTEGERS: Final = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")
_SINGLE: Final = ("sink", *_INTEGERS, *_TOKEN_SCALES)
_MAKERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_OPERANDS, copied),
    **dict.fromkeys((*_INTEGERS, "padding"), as_int32),
    "sink": lambda tensor: _contiguous(as_float32(tensor)),
    "bias": readable_bias,
    "aux": as_float32,
}
"""What makes the kernel's tensor of a given one, by role; those with numbers without them."""


def _contiguous(tensor: Any) -> Any:
    return tensor.contiguous()


class Conversion(NamedTuple):
    """What the kernel reads instead of a tensor that was given.

    Attributes:
        make: makes it.
        source: place of the given one in ``Arguments.tensors``.
        place: place of what is made in ``Pattern.roles``.
    """

    make: Callable[[Any], Any]
    source: int
    place: int


class Made(NamedTuple):
    """A tensor that a call makes: its shape and element type, contiguous."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def numel(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.numel * int(self.dtype.itemsize)


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a call is like.

    Attributes:
        problem: what it asks for, with all that it leaves open.
        spec: its kernel.
        launches: what is launched, with addresses and factors of some call.
        layouts: of the operands of tensor maps, by their names there.
        roles: parameters, or operands of tensor maps, that tensors are: those given, in the order
            of ``Arguments.tensors``, and then those that nothing was given for.
        given: bytes of each that was given.
        sizes: bytes of each as the kernel reads it.
        conversions: of what the kernel does not read as it was given.
        written: results and workspaces by role.
        like_q: whether O has shape, strides and type of q.
    """

    problem: Problem
    spec: AttentionSpec
    launches: tuple[Launched, ...]
    layouts: Mapping[str, OperandLayout]
    roles: tuple[str, ...]
    given: tuple[int, ...]
    sizes: tuple[int, ...]
    conversions: tuple[Conversion, ...]
    written: Mapping[str, Made]
    like_q: bool


def pattern_of(
    asked: Request, spec: AttentionSpec, call: Call, launches: Sequence[Launched], given: Given
) -> Pattern | None:
    """Return what a call is like, or None where to repeat it takes more than other addresses.

    Args:
        asked: the call.
        spec: its kernel.
        call: its memory.
        launches: what was launched for it.
        given: the tensors that were given, by role, in the order of a repeated call's addresses.
    """
    read = _by_role(asked, call)
    moved = {
        role for role, tensor in read.items()
        if role not in given or tensor.data_ptr() != given[role].data_ptr()
    }  # fmt: skip
    is_empty = any(read[name].numel() == 0 for name in _OPERANDS if name in read)
    if is_empty or moved - {*given, *_TOKEN_SCALES}:
        return None
    scales = tuple(role for role in _TOKEN_SCALES if role in moved)
    copied = tuple(role for role in given if role in moved and role not in scales)
    made = (*copied, *scales)
    roles = (*given, *(role for role in made if role not in given))
    described = call.described
    operands = dict(zip(("q", "k", "v", "o"), (described.q, described.k, described.v, described.o),
                        strict=True))  # fmt: skip
    operands |= zip(("q_rope", "k_rope"), described.rope, strict=False)
    q, out = asked.inputs[0], call.out
    return Pattern(
        asked.posed or asked.problem,
        spec,
        tuple(launches),
        {name: operand.layout for name, operand in operands.items()},
        roles=roles,
        given=_sizes(given.values()),
        sizes=_sizes(read.get(role, given.get(role)) for role in roles),
        conversions=_conversions(roles, len(given), made, asked),
        written=_written(call),
        like_q=(q.shape, q.stride(), q.dtype) == (out.shape, out.stride(), out.dtype),
    )


def _sizes(tensors: Iterable[Any]) -> tuple[int, ...]:
    return tuple(end - start for start, end in map(span, tensors))


def _by_role(asked: Request, call: Call) -> dict[str, Any]:
    """Return every tensor that the kernel reads, under the name of its parameter."""
    tensors = asked.tensors
    found = dict(zip(_OPERANDS, call.inputs, strict=False))
    if tensors.q_rope is not None:
        found["q_rope"], found["k_rope"] = call.read[-2:]
    found |= {name: getattr(tensors, name) for name in _SINGLE}
    for kind, several in zip(SLOTS, (tensors.padding, tensors.biases, tensors.aux), strict=True):
        found |= {f"{kind}{i}": tensor for i, tensor in enumerate(several)}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _written(call: Call) -> dict[str, Made]:
    """Return what a call writes, under the name of its parameter."""
    found = {"o": call.out, "lse": call.lse}
    found |= zip(("partial_o", "partial_lse"), call.partial, strict=False)
    made = {name: Made(tuple(t.shape), t.dtype) for name, t in found.items() if t is not None}
    return made if call.counters is None else made | {"counters": counted(call.counters.number)}


def counted(count: int) -> Made:
    """Return counters of query tiles as a call writes them."""
    return Made((count,), torch.int32)


def _conversions(
    roles: tuple[str, ...], num_given: int, made: Iterable[str], asked: Request
) -> tuple[Conversion, ...]:
    """Return what makes the tensors of the roles ``made``; the first ``num_given`` are given."""
    features = asked.problem.features
    of_keys = key_layout(paged=bool(features.page_size), packed=features.ragged_k)
    makers = {**_MAKERS, "q_scale": _contiguous, "k_scale": of_keys}
    found = []
    for role in made:
        make, source = makers[role.rstrip(digits)], roles.index(role)
        if source >= num_given:
            # The other operand alone has scales per token.
            make, source = _of_ones(make), roles.index(role.removesuffix("_scale"))
        found.append(Conversion(make, source, roles.index(role)))
    return tuple(found)


def _of_ones(layout: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what makes scales of 1 for the tokens of an operand, laid out."""
    return lambda operand: layout(ones_for(operand))
