"""Tensors as the kernel sees them: addresses, layouts, and copies where TMA cannot read in place.

TMA reads any tensor whose last dimension is contiguous, whose other strides are positive multiples
of 16 bytes below 2**40, and whose first element lies at a multiple of 16 bytes. Such tensors, views
of a packed QKV tensor among them, are used where they are; all others are copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from ...plan.facts.tensor_map_bits import ALIGN, MAX_STRIDE
from ...plan.launch.launch import Workspace
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.extras import ABSENT, BIAS_AXES, Aux, Bias, Extras, PaddingLengths
from ...plan.spec.tensor_maps import OperandLayout
from ..ask.checks import DENSE
from ..ask.features import NO_TENSORS, PLAIN, FeatureTensors
from ..ask.outputs import NEW, Outputs, Wanted, span, wanted_lse, wanted_out
from ..ask.problem import Problem
from ..choose.specify import combine_spec
from .counters import Counters, counters_on
from .launch import AttentionCall, Operand, Splits
from .simulator import HostBuffer

NO_WORKSPACE: Final = Workspace()
# Bound once: looking it up takes time in every call.
_increment_version = torch.autograd.graph.increment_version


@dataclass(frozen=True)
class Call:
    """One call with its memory: tensors that live until the launch is over, and their description.

    Attributes:
        inputs: q, k and v, as they are or copied.
        out: the new output tensor.
        lse: the new log-sum-exp tensor, or None.
        described: addresses and layouts for the launch.
        read: further tensors that the kernel reads.
        partial: O and log-sum-exp of every split, float32; empty without splits.
        counters: of the query tiles whose last CTA joins them, or None.
    """

    inputs: tuple[Any, Any, Any]
    out: Any
    lse: Any
    described: AttentionCall
    read: tuple[Any, ...] = ()
    partial: tuple[Any, ...] = ()
    counters: Counters | None = None

    def host_buffers(self) -> list[HostBuffer]:
        """Return the memory of the call: inputs to be read, outputs to be written."""
        buffers = [extent(tensor, writable=False) for tensor in (*self.inputs, *self.read)]
        written = (self.out, self.lse, *self.partial)
        buffers += [extent(t, writable=True) for t in written if t is not None]
        if self.counters is not None:
            memory = extent(self.counters.memory, writable=True)
            buffers.append(replace(memory, is_read=True))
        return buffers

    def splits(self, problem: Problem) -> Splits | None:
        """Return what is to be combined, or None without splits."""
        if not problem.variant.is_combined:
            return None
        return splits_of(combine_spec(problem), self.partial, self.out, self.lse)


def splits_of(spec: CombineSpec, partial: tuple[Any, Any], out: Any, lse: Any) -> Splits:
    """Return what the combine kernel of ``spec`` puts together.

    Args:
        spec: the kernel.
        partial: O (part, .., head_dim) and log-sum-exp (part, ..) of every part, row by row.
        out, lse: what it writes; ``lse`` may be None.
    """
    partial_o, partial_lse = partial
    num_rows = partial_lse[0].numel()
    values = {
        "partial_o": partial_o.data_ptr(),
        "partial_lse": partial_lse.data_ptr(),
        "o": out.data_ptr(),
        "lse": 0 if lse is None else lse.data_ptr(),
        "num_rows": num_rows,
        "num_splits": partial_lse.shape[0],
        "num_q_heads": out.shape[-2],
        "num_queries": out.shape[-3],
    }
    return Splits(spec, num_rows, tuple(values.items()))


def fits_tma(address: int, shape: Sequence[int], strides: Sequence[int], item_bytes: int) -> bool:
    """Return whether TMA can read a tensor in place; ``strides`` are in elements.

    The stride of a dimension of one element is never used, so it may be anything.
    """
    if address % ALIGN or (strides[-1] != 1 and shape[-1] != 1):
        return False
    used = [s * item_bytes for n, s in zip(shape[:-1], strides[:-1], strict=True) if n > 1]
    return all(0 < size < MAX_STRIDE and size % ALIGN == 0 for size in used)


def readable(tensor: Any) -> Any:
    """Return ``tensor``, or a contiguous copy of it where TMA cannot read it in place."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if fits_tma(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size()):
        return tensor
    return copied(tensor)


def copied(tensor: Any) -> Any:
    """Return a contiguous copy.

    Unlike contiguous(), a clone is new memory, and so aligned, also when only alignment is wrong.
    """
    return tensor.clone(memory_format=torch.contiguous_format)


def operand_of(tensor: Any) -> Any:
    """Return an operand of rank 4 that TMA can read; packed rows become a batch of one."""
    return readable(_as_rank_4(tensor))


def outputs_of(problem: Problem, q: Any, given: Outputs = NEW) -> tuple[Any, Any]:
    """Return O and LSE, as given or uninitialised; LSE may be None."""
    out = _written(given.out, wanted_out(q, problem.head_dim_v), q)
    lse = _written(given.lse, wanted_lse(q), q) if problem.return_lse else None
    return out, lse


def _written(given: Any, wanted: Wanted, q: Any) -> Any:
    """Return the tensor that is written: the one that was given, or a new one."""
    if given is None:
        dtype = getattr(torch, wanted.dtype)
        return torch.empty(wanted.shape, dtype=dtype, device=q.device)
    return changed(given)


def changed(given: Any) -> Any:
    """Return a tensor of the caller's that is written; autograd counts it as changed."""
    if not given.is_inference():
        _increment_version(given)
    return given


def describe_call(
    problem: Problem,
    inputs: Sequence[Any],
    tensors: FeatureTensors = NO_TENSORS,
    given: Outputs = NEW,
    workspace: Workspace = NO_WORKSPACE,
) -> Call:
    """Return the call on ``inputs`` (q, k, v), with new outputs where none are given.

    ``workspace`` is that of the launch.
    """
    q, k, v = map(operand_of, inputs)
    out, lse = outputs_of(problem, inputs[0], given)
    partial = new_partial(problem, out, workspace) if workspace.parts else ()
    counters = counters_on(out.device, workspace.counters) if workspace.counters else None
    rope_inputs = (tensors.q_rope, tensors.k_rope)
    rope = tuple(operand_of(tensor) for tensor in rope_inputs if tensor is not None)
    described = AttentionCall(
        q=_operand(q),
        k=_operand(k),
        v=_operand(v),
        o=_operand(_as_rank_4(out)),
        softmax_scale=problem.scale,
        lse=0 if lse is None else lse.data_ptr(),
        extras=()
        if problem.features is PLAIN
        else _extras(problem, tensors, out, partial, counters).items(),
        longest=problem.sizes if problem.features.has_lengths else None,
        num_splits=problem.features.count,
        value_scale=problem.scales.v,
        rope=tuple(map(_operand, rope)),
    )
    return Call((q, k, v), out, lse, described, (*tensors.all(), *rope), partial, counters)


def new_partial(problem: Problem, out: Any, workspace: Workspace) -> tuple[Any, Any]:
    """Return uninitialised O (part, row, head_dim_v) and LSE (part, row) of every part.

    Of splits, row ``r`` is head ``r % heads`` of query ``r // heads``.
    """
    rows = (workspace.parts, workspace.rows)
    depth = (*rows, problem.head_dim_v)
    return tuple(torch.empty(s, dtype=torch.float32, device=out.device) for s in (depth, rows))


def _as_rank_4(tensor: Any) -> Any:
    """Return packed rows (total, heads, head_dim) as a batch of one."""
    return tensor if tensor.dim() == len(DENSE) else tensor.unsqueeze(0)


def _extras(
    problem: Problem,
    tensors: FeatureTensors,
    out: Any,
    partial: tuple[Any, ...],
    counters: Counters | None,
) -> Extras[int, int, float]:
    """Return the parameters that the features of the call add, with their values."""
    available = Extras[int, int, float](
        cu_seqlens_q=_address(tensors.cu_seqlens_q),
        total_q=out.shape[0],
        o=out.data_ptr(),
        cu_seqlens_k=_address(tensors.cu_seqlens_k),
        seqused_k=_address(tensors.seqused_k),
        page_table=_address(tensors.page_table),
        pages_per_row=_extent(tensors.page_table, 1),
        sink=_address(tensors.sink),
        q_scale=_address(tensors.q_scale),
        k_scale=_address(tensors.k_scale),
        k_scale_row=_extent(tensors.k_scale, 2),
        padding=tuple(PaddingLengths(i, t.data_ptr()) for i, t in enumerate(tensors.padding)),
        biases=tuple(
            Bias(i, t.data_ptr(), _byte_strides(t)[: len(BIAS_AXES)])
            for i, t in enumerate(tensors.biases)
        ),
        aux=tuple(Aux(i, t.data_ptr(), _byte_strides(t)) for i, t in enumerate(tensors.aux)),
        **_of_splits(partial),
        counters=ABSENT if counters is None else counters.address,
    )
    return available.matching(problem.variant.call_extras)


def _of_splits(partial: tuple[Any, ...]) -> dict[str, Any]:
    """Return the parameters of a split; none without partial results."""
    if not partial:
        return {}
    partial_o, partial_lse = partial
    return {
        "num_splits": partial_lse.shape[0],
        "partial_rows": partial_lse.shape[1],
        "partial_o": partial_o.data_ptr(),
        "partial_lse": partial_lse.data_ptr(),
    }


def _address(tensor: Any) -> int:
    return ABSENT if tensor is None else int(tensor.data_ptr())


def _extent(tensor: Any, axis: int) -> int:
    return ABSENT if tensor is None else int(tensor.shape[axis])


def _byte_strides(tensor: Any) -> tuple[int, ...]:
    """Return the strides in bytes; 0 for a dimension of one element, which stands for all."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(0 if size == 1 else stride * tensor.element_size() for size, stride in pairs)


def extent(tensor: Any, *, writable: bool) -> HostBuffer:
    """Return the bytes from the first to the last element of a CPU tensor."""
    first, end = span(tensor)
    return HostBuffer(first, end - first, writable)


def _operand(tensor: Any) -> Operand:
    return Operand(tensor.data_ptr(), OperandLayout(tuple(tensor.shape), tuple(tensor.stride())))
