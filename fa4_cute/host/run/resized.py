"""Calls that differ from one that was carried out in rows and longest sequences alone.

Serving changes ``max_seqlen_q``, ``max_seqlen_k``, the rows of packed tensors and the width of page
tables from step to step. What follows from these numbers is patched: grid, counts, the rows in
tensor maps, sizes of what is written. Where the rules take another kernel for them, a call takes
the long way once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...masks import AttentionMask
from ...plan.facts.hardware import ADDRESS_ALIGN
from ...plan.facts.tensor_map_bits import TensorMapFields
from ...plan.launch.launch import Workspace, plan_combine, plan_launch
from ...plan.spec.tensor_maps import OperandLayout, key_map, query_map
from ..ask.outputs import span
from ..ask.problem import Problem
from ..choose.refusals import Refusal
from ..choose.specify import combine_spec
from ..choose.support import choose
from .launch import repacked
from .pattern import Made, Pattern, counted
from .sorting import LENGTHS, Arguments

_ROWS_OF_Q: Final = ("q", "q_rope", "q_scale", "out")
_ROWS_OF_K: Final = ("k", "v", "k_rope")
_QUERY_MAPS: Final = ("q", "o", "q_rope")


class Sizes(NamedTuple):
    """The numbers in which calls of one kind differ.

    Attributes:
        rows_q, rows_k: rows of packed queries, and of packed keys; 0 where these are not packed.
        pages: width of the page table, 0 without one.
        seqlen_q, seqlen_k: longest sequences; None for dense queries, and for the room for keys.
    """

    rows_q: int
    rows_k: int
    pages: int
    seqlen_q: int | None
    seqlen_k: int | None


class Machine(NamedTuple):
    """What a launch is packed for: the encoder of tensor maps, and the number of SMs."""

    encode: Callable[[TensorMapFields], bytes]
    num_sms: int


def kind_of(
    given: Arguments, options: Mapping[str, Any], longest: Sequence[Any] | None
) -> tuple[tuple[Any, ...], Sizes] | None:
    """Return what calls are alike in that differ in ``Sizes`` alone, and the sizes of this one.

    None for dense queries without pages, for calls whose biases are as long as the sequences, and
    for what the long way refuses. Tensors must be such as ``known.key_of`` knows.

    Args:
        given: the arguments.
        options: the same by name.
        longest: the longest sequences of queries and keys, where values were looked at.
    """
    sorter = given.constants[0]
    q, k = given.tensors[:2]
    rows_q = q.shape[0] if "cu_seqlens_q" in sorter.read else 0
    rows_k = k.shape[0] if "cu_seqlens_k" in sorter.read else 0
    pages = options["page_table"].shape[1] if "page_table" in sorter.read else 0
    mask = options.get("mask")
    if not (rows_q or pages) or (type(mask) is AttentionMask and mask.biases):
        return None
    rows = dict.fromkeys(_ROWS_OF_Q, rows_q) if rows_q else {}
    rows |= dict.fromkeys(_ROWS_OF_K, rows_k) if rows_k else {}
    named = [*sorter.read, *[""] * (len(given.tensors) - len(sorter.read)), *sorter.written]
    kind = [None if i in sorter.lengths else c for i, c in enumerate(given.constants)]
    for name, tensor in zip(named, (*given.tensors, *given.written), strict=True):
        layout = _layout_of(name, tensor, rows)
        if layout is None:
            return None
        kind += type(tensor), layout, tensor.dtype, tensor.device, tensor.data_ptr() % ADDRESS_ALIGN
    if longest is None:
        longest = [options.get(name) for name in LENGTHS]
    seqlen_q, seqlen_k, *_ = longest
    if any(n is not None and (type(n) is not int or n <= 0) for n in (seqlen_q, seqlen_k)):
        return None
    if (rows_q and seqlen_q is None) or ("page_table" in sorter.read and not pages):
        return None
    return tuple(kind), Sizes(rows_q, rows_k, pages, seqlen_q, seqlen_k)


def _layout_of(name: str, tensor: Any, rows: Mapping[str, int]) -> tuple[Any, ...] | None:
    """Return shape and strides but for what sizes change; None where rows are not those of q, k."""
    shape: tuple[Any, ...] = tuple(tensor.shape)
    if name == "page_table":
        return shape[0], tensor.is_contiguous()
    if name in rows:
        if shape[0] != rows[name]:
            return None
        # A stride between rows counts where there are several.
        shape = shape[0] > 1, *shape[1:]
    return shape, tensor.stride()


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
    problem = _sized(patterns[0].problem, sizes)
    choice = choose(problem)
    if isinstance(choice, Refusal):
        return None
    spec, num_splits = choice.spec, choice.num_splits
    found = next((pattern for pattern in patterns if pattern.spec is spec), None)
    if found is None or found.conversions:
        return None
    layouts = {name: _laid_out(name, layout, sizes) for name, layout in found.layouts.items()}
    of_given = tuple(end - start for start, end in map(span, tensors))
    changes: dict[str, Any] = {"pages_per_row": sizes.pages, "num_splits": num_splits}
    workspace = Workspace.of(spec, problem.sizes, num_splits, machine.num_sms)
    written = {role: _made(role, made, sizes, workspace) for role, made in found.written.items()}
    if sizes.rows_q:
        changes |= dict.fromkeys(("total_q", "num_queries"), sizes.rows_q)
        changes |= dict.fromkeys(("partial_rows", "num_rows"), workspace.rows)
    for name, layout in layouts.items():
        if layout != found.layouts[name]:
            make = query_map if name in _QUERY_MAPS else key_map
            fields = make(spec, name, layout).fields(tensors[0].data_ptr())
            changes[f"{name}_map"] = machine.encode(fields)
    plans = [plan_launch(spec, problem.sizes, problem.scale, num_splits, machine.num_sms)]
    if len(found.launches) > 1:
        _, num_rows = written["partial_lse"].shape
        plans.append(plan_combine(combine_spec(problem), num_rows))
    pairs = zip(found.launches, plans, strict=True)
    return replace(
        found,
        problem=problem,
        launches=tuple(repacked(launched, plan, changes) for launched, plan in pairs),
        layouts=layouts,
        given=of_given,
        sizes=of_given,
        written=written,
    )


def _sized(problem: Problem, sizes: Sizes) -> Problem:
    """Return a problem of these sizes, as ``ask.sequences`` counts them."""
    seqlen_q, seqlen_k = sizes.seqlen_q, sizes.seqlen_k
    if seqlen_k is None:
        seqlen_k = sizes.pages * problem.features.page_size or problem.seqlen_k
    seqlen_q = problem.seqlen_q if seqlen_q is None else seqlen_q
    return replace(problem, seqlen_q=seqlen_q, seqlen_k=seqlen_k, total_q=sizes.rows_q)


def _laid_out(name: str, layout: OperandLayout, sizes: Sizes) -> OperandLayout:
    """Return the layout with the rows of ``sizes``, where it has packed rows."""
    rows = sizes.rows_q if name in _QUERY_MAPS else sizes.rows_k
    batch, seqlen, heads, depth = layout.shape
    return replace(layout, shape=(batch, rows or seqlen, heads, depth))


def _made(role: str, made: Made, sizes: Sizes, workspace: Workspace) -> Made:
    """Return what a call of such sizes writes."""
    first, *others = made.shape
    if role == "counters":
        return counted(workspace.counters)
    if role.startswith("partial"):
        return Made((workspace.parts, workspace.rows, *others[1:]), made.dtype)
    if not sizes.rows_q:
        return made
    if role == "o":
        return Made((sizes.rows_q, *others), made.dtype)
    return Made((first, sizes.rows_q, *others[1:]), made.dtype)
