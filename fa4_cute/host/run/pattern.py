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

from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.tensor_maps import OperandLayout
from ..ask.arguments import Options
from ..ask.outputs import span
from ..ask.problem import Problem
from ..ask.request import Request
from ..ask.scales import token_scales_of
from ..ask.score_changes import as_float32, by_keys
from ..ask.sequences import Sequences, as_int32
from .launch import Launched
from .operands import Call, operand_of

Given = Mapping[str, Any]
Derive = Callable[[list[Any], Given], tuple[Any, ...]]
SLOTS: Final = ("padding", "bias", "aux")
"""Parameters of which a kernel may have several, numbered from 0."""
_OPERANDS: Final = ("q", "k", "v", "q_rope", "k_rope")
_TOKEN_SCALES: Final = ("q_scale", "k_scale")
_INTEGERS: Final = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")
_SINGLE: Final = ("sink", *_INTEGERS, *_TOKEN_SCALES)
_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_OPERANDS, operand_of),
    **dict.fromkeys((*_INTEGERS, "padding"), as_int32),
    "sink": lambda tensor: as_float32(tensor).contiguous(),
    "bias": lambda tensor: by_keys(as_float32(tensor)),
    "aux": as_float32,
}
"""What makes the kernel's tensor of a given one, by role; those with numbers without them."""


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
        derive: what makes the tensors that the kernel reads instead of given ones, from
            ``Arguments.tensors`` and the options; None where it reads all as they are.
        made: places of these in ``roles``.
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
    derive: Derive | None
    made: tuple[int, ...]
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
    scales = _TOKEN_SCALES if moved & {*_TOKEN_SCALES} else ()
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
        derive=_derive([*given], copied, _where(asked) if scales else None),
        made=tuple(map(roles.index, made)),
        written={role: Made(tuple(t.shape), t.dtype) for role, t in _written(call).items()},
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


def _written(call: Call) -> dict[str, Any]:
    """Return every tensor that a call writes, under the name of its parameter."""
    found = {"o": call.out, "lse": call.lse}
    found |= zip(("partial_o", "partial_lse"), call.partial, strict=False)
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _derive(
    given: list[str], copied: tuple[str, ...], where: Callable[[Given], Sequences] | None
) -> Derive | None:
    """Return what copies tensors and makes the scales of every token; None for neither.

    Args:
        given: roles of the tensors that are given.
        copied: those of them that are copied.
        where: what makes the sequences whose scales are made, or None.
    """
    steps = [(_CONVERSIONS[role.rstrip(digits)], given.index(role)) for role in copied]
    if where is None and not steps:
        return None

    def derive(tensors: list[Any], options: Given) -> tuple[Any, ...]:
        made = [convert(tensors[place]) for convert, place in steps]
        return (*made, *(() if where is None else _token_scales(where, tensors, options)))

    return derive


def _token_scales(
    where: Callable[[Given], Sequences], tensors: list[Any], options: Given
) -> tuple[Any, ...]:
    """Return the scales of every token as the kernel reads them, those of q and those of k."""
    given = Options(q_scale=options.get("q_scale"), k_scale=options.get("k_scale"))
    return token_scales_of(given, *tensors[:2], where=where(options))


def _where(asked: Request) -> Callable[[Given], Sequences]:
    """Return what makes the sequences of a repeated call."""
    problem = asked.problem
    sizes = problem.batch, problem.seqlen_q, problem.seqlen_k

    def where(options: Given) -> Sequences:
        tensors: dict[str, Any] = {name: options.get(name) for name in _INTEGERS}
        return Sequences(*sizes, page_size=problem.features.page_size, **tensors)

    return where
