"""Calls that differ from one that was carried out in rows and longest sequences alone.

Serving changes ``max_seqlen_q``, ``max_seqlen_k`` and the rows of packed tensors in every step.
What follows from these numbers is patched: grid, counts, the rows in tensor maps, sizes of what is
written. Where the rules take another kernel for them, a call takes the long way once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...masks import AttentionMask
from ...plan.facts.tensor_map_bits import TensorMapFields
from ...plan.launch.launch import plan_combine, plan_launch
from ...plan.spec.tensor_maps import OperandLayout, key_map, query_map
from ..ask.outputs import span
from ..choose.support import specified
from .known import TMA_ALIGN
from .launch import repacked
from .operands import combine_spec
from .pattern import Made, Pattern
from .sorting import LENGTHS, Arguments

_ROWS_OF_Q: Final = ("q", "q_rope", "q_scale", "out")
_ROWS_OF_K: Final = ("k", "v", "k_rope")
_QUERY_MAPS: Final = ("q", "o", "q_rope")


class Sizes(NamedTuple):
    """The numbers in which calls of one kind differ.

    Attributes:
        rows_q, rows_k: rows of packed queries, and of packed keys; 0 where these are not packed.
        seqlen_q, seqlen_k: longest sequences; None for the room for keys, which is the same.
    """

    rows_q: int
    rows_k: int
    seqlen_q: int
    seqlen_k: int | None


class Machine(NamedTuple):
    """What a launch is packed for: the encoder of tensor maps, and the number of SMs."""

    encode: Callable[[TensorMapFields], bytes]
    num_sms: int


def kind_of(
    given: Arguments, options: Mapping[str, Any], longest: Sequence[Any] | None
) -> tuple[tuple[Any, ...], Sizes] | None:
    """Return what calls are alike in that differ in ``Sizes`` alone, and the sizes of this one.

    None for dense queries, for calls whose biases are as long as the sequences, and for what the
    long way refuses. Tensors must be such as ``known.key_of`` knows.

    Args:
        given: the arguments.
        options: the same by name.
        longest: the longest sequences of queries and keys, where values were looked at.
    """
    sorter = given.constants[0]
    mask = options.get("mask")
    if "cu_seqlens_q" not in sorter.read or (type(mask) is AttentionMask and mask.biases):
        return None
    q, k = given.tensors[:2]
    rows = dict.fromkeys(_ROWS_OF_Q, q.shape[0])
    rows_k = k.shape[0] if "cu_seqlens_k" in sorter.read else 0
    if rows_k:
        rows |= dict.fromkeys(_ROWS_OF_K, rows_k)
    named = [*sorter.read, *[""] * (len(given.tensors) - len(sorter.read)), *sorter.written]
    kind = [None if i in sorter.lengths else c for i, c in enumerate(given.constants)]
    for name, tensor in zip(named, (*given.tensors, *given.written), strict=True):
        shape: tuple[Any, ...] = tuple(tensor.shape)
        if name in rows:
            if shape[0] != rows[name] or not shape[0]:
                return None
            # A stride between rows counts where there are several.
            shape = shape[0] > 1, *shape[1:]
        place = tensor.data_ptr() % TMA_ALIGN
        kind += type(tensor), shape, tensor.stride(), tensor.dtype, tensor.device, place
    if longest is None:
        longest = [options.get(name) for name in LENGTHS]
    seqlen_q, seqlen_k, *_ = longest
    if any(type(n) is not int or n <= 0 for n in (seqlen_q, 1 if seqlen_k is None else seqlen_k)):
        return None
    return tuple(kind), Sizes(q.shape[0], rows_k, seqlen_q, seqlen_k)


def resized(
    patterns: Sequence[Pattern], sizes: Sizes, tensors: Sequence[Any], machine: Machine
) -> Pattern | None:
    """Return what a call of other sizes is like; None where it takes the long way.

    Args:
        patterns: calls of its kind, by different kernels.
        sizes: its sizes.
        tensors: those it is given, in the order of the roles.
        machine: what it is packed for.

    Raises:
        ValueError: the sizes are more than a kernel counts.
    """
    pattern = patterns[0]
    seqlen_k = pattern.problem.seqlen_k if sizes.seqlen_k is None else sizes.seqlen_k
    problem = replace(pattern.problem, seqlen_q=sizes.seqlen_q, seqlen_k=seqlen_k)
    spec, _ = specified(problem)
    found = next((pattern for pattern in patterns if pattern.spec is spec), None)
    if found is None or any("q_scale" in names for names, _ in found.derived):
        return None
    layouts = {name: _laid_out(name, layout, sizes) for name, layout in found.layouts.items()}
    rows = sizes.rows_q, sizes.rows_q * problem.num_q_heads
    written = {role: _made(role, made, *rows) for role, made in found.written.items()}
    of_given = [end - start for start, end in map(span, tensors)]
    changes: dict[str, Any] = {"total_q": sizes.rows_q, "num_queries": sizes.rows_q}
    changes |= dict.fromkeys(("partial_rows", "num_rows"), rows[1])
    for name, layout in layouts.items():
        if layout != found.layouts[name]:
            make = query_map if name in _QUERY_MAPS else key_map
            fields = make(spec, name, layout).fields(tensors[0].data_ptr())
            changes[f"{name}_map"] = machine.encode(fields)
    num_splits = problem.features.num_splits
    plans = [plan_launch(spec, problem.sizes, problem.scale, num_splits, machine.num_sms)]
    if len(found.launches) > 1:
        plans.append(plan_combine(combine_spec(problem), changes["num_rows"]))
    pairs = zip(found.launches, plans, strict=True)
    return replace(
        found,
        problem=problem,
        launches=tuple(repacked(launched, plan, changes) for launched, plan in pairs),
        layouts=layouts,
        sizes=(*of_given, *found.sizes[len(of_given) :]),
        written=written,
    )


def _laid_out(name: str, layout: OperandLayout, sizes: Sizes) -> OperandLayout:
    """Return the layout with the rows of ``sizes``, where it has packed rows."""
    rows = sizes.rows_q if name in _QUERY_MAPS else sizes.rows_k
    batch, seqlen, heads, depth = layout.shape
    return replace(layout, shape=(batch, rows or seqlen, heads, depth))


def _made(role: str, made: Made, total_q: int, num_rows: int) -> Made:
    """Return what a call with so many queries, and rows of all heads, writes."""
    first, *others = made.shape
    if role == "o":
        return Made((total_q, *others), made.dtype)
    count = total_q if role == "lse" else num_rows
    return Made((first, count, *others[1:]), made.dtype)
