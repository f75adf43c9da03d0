"""What a call that was carried out is like: all of it but addresses and factors.

No tensor is kept, only shapes, sizes and what the tensors were for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.tensor_maps import OperandLayout
from ..ask.arguments import Inputs, Options
from ..ask.outputs import span
from ..ask.problem import Problem
from ..ask.request import Request
from ..ask.scales import token_scales_of
from ..ask.sequences import Sequences, row_offsets
from .launch import Launched
from .operands import Call

Given = Mapping[str, Any]
Derive = Callable[[Inputs, Given], tuple[Any, ...]]
SLOTS: Final = ("padding", "bias", "aux")
"""Parameters of which a kernel may have several, numbered from 0."""
_OPERANDS: Final = ("q", "k", "v", "q_rope", "k_rope")
_SINGLE: Final = (
    "sink", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "q_scale", "k_scale",
)  # fmt: skip


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
            of ``Arguments.tensors``, and then those derived.
        sizes: bytes of each.
        derived: names of tensors that only the kernel reads, and what makes them.
        written: results and workspaces by role.
        like_q: whether O has shape, strides and type of q.
    """

    problem: Problem
    spec: AttentionSpec
    launches: tuple[Launched, ...]
    layouts: Mapping[str, OperandLayout]
    roles: tuple[str, ...]
    sizes: tuple[int, ...]
    derived: tuple[tuple[tuple[str, ...], Derive], ...]
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
    derived = _derived(asked, given, read)
    if derived is None or any(read[name].numel() == 0 for name in _OPERANDS if name in read):
        return None
    made = {name: read[name] for names, _ in derived for name in names}
    tensors = (*given.values(), *made.values())
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
        roles=(*given, *made),
        sizes=tuple(end - start for start, end in map(span, tensors)),
        derived=tuple(derived),
        written={role: Made(tuple(t.shape), t.dtype) for role, t in _written(call).items()},
        like_q=(q.shape, q.stride(), q.dtype) == (out.shape, out.stride(), out.dtype),
    )


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


def _derived(
    asked: Request, given: Mapping[str, Any], read: Mapping[str, Any]
) -> list[tuple[tuple[str, ...], Derive]] | None:
    """Return what makes the tensors that were not given; None where something was copied."""
    moved = {
        role for role, tensor in read.items()
        if role not in given or tensor.data_ptr() != given[role].data_ptr()
    }  # fmt: skip
    derived: list[tuple[tuple[str, ...], Derive]] = []
    for role in [role for role in moved if role.startswith("aux") and role not in given]:
        derived.append(((role,), partial(_offsets, asked.problem.batch)))
        moved -= {role}
    if "k_scale" in moved or "q_scale" in moved:
        derived.append((("q_scale", "k_scale"), partial(_token_scales, _where(asked))))
        moved -= {"q_scale", "k_scale"}
    return None if moved else derived


def _offsets(batch: int, inputs: Inputs, options: Given) -> tuple[Any, ...]:
    return (row_offsets(inputs, options, batch),)


def _token_scales(
    where: Callable[[Given], Sequences], inputs: Inputs, options: Given
) -> tuple[Any, ...]:
    """Return the scales of every token as the kernel reads them, those of q and those of k."""
    given = Options(q_scale=options.get("q_scale"), k_scale=options.get("k_scale"))
    return token_scales_of(given, *inputs[:2], where=where(options))


def _where(asked: Request) -> Callable[[Given], Sequences]:
    """Return what makes the sequences of a repeated call."""
    problem = asked.problem
    sizes = problem.batch, problem.seqlen_q, problem.seqlen_k
    names = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")

    def where(options: Given) -> Sequences:
        tensors: dict[str, Any] = {name: options.get(name) for name in names}
        return Sequences(*sizes, page_size=problem.features.page_size, **tensors)

    return where
