"""Tensors as the kernel sees them: addresses, layouts, and copies where TMA cannot read in place.

TMA reads any tensor whose last dimension is contiguous, whose other strides are positive multiples
of 16 bytes below 2**40, and whose first element lies at a multiple of 16 bytes. Such tensors, views
of a packed QKV tensor among them, are used where they are; all others are copied first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...plan.facts.dtypes import DType
from ...plan.facts.tensor_map_bits import ALIGN, MAX_STRIDE
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.tensor_maps import OperandLayout
from ...plan.spec.variant import aux_strides, bias_strides
from ..ask.checks import DENSE
from ..ask.features import NO_TENSORS, PLAIN, FeatureTensors
from ..ask.problem import Problem
from ..ask.scales import SCALED_DTYPE
from .launch import AttentionCall, Operand, Splits
from .simulator import HostBuffer


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
    """

    inputs: tuple[Any, Any, Any]
    out: Any
    lse: Any
    described: AttentionCall
    read: tuple[Any, ...] = ()
    partial: tuple[Any, ...] = ()

    def host_buffers(self) -> list[HostBuffer]:
        """Return the memory of the call: inputs to be read, outputs to be written."""
        buffers = [extent(tensor, writable=False) for tensor in (*self.inputs, *self.read)]
        written = (self.out, self.lse, *self.partial)
        buffers += [extent(t, writable=True) for t in written if t is not None]
        return buffers

    def splits(self, problem: Problem) -> Splits | None:
        """Return what is to be combined, or None without splits."""
        if not self.partial:
            return None
        partial_o, partial_lse = self.partial
        spec = CombineSpec(DType(problem.dtype).output, problem.head_dim_v, problem.return_lse)
        values = {
            "partial_o": partial_o.data_ptr(),
            "partial_lse": partial_lse.data_ptr(),
            "o": self.out.data_ptr(),
            "lse": 0 if self.lse is None else self.lse.data_ptr(),
            "num_rows": partial_lse.shape[1],
            "num_splits": partial_lse.shape[0],
            "num_q_heads": problem.num_q_heads,
            "num_queries": self.out.shape[-3],
        }
        return Splits(spec, partial_lse.shape[1], tuple(values.items()))


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
    import torch

    # Unlike contiguous(), a clone is new memory, and so aligned, also when only alignment is wrong.
    return tensor.clone(memory_format=torch.contiguous_format)


def new_outputs(problem: Problem, q: Any) -> tuple[Any, Any]:
    """Return uninitialised O and LSE, which may be None.

    O has the shape of ``q`` with ``head_dim_v`` elements a row, bfloat16 for fp8 operands; LSE is
    float32, (batch, heads, seqlen_q), or (heads, total_q) for packed queries.
    """
    import torch

    shape = (*q.shape[:-1], problem.head_dim_v)
    dtype = torch.bfloat16 if problem.dtype == SCALED_DTYPE.value else q.dtype
    out = torch.empty(shape, dtype=dtype, device=q.device)
    if not problem.return_lse:
        return out, None
    rows = (*q.shape[:-3], q.shape[-2], q.shape[-3])
    return out, torch.empty(rows, dtype=torch.float32, device=q.device)


def describe_call(
    problem: Problem, inputs: Sequence[Any], tensors: FeatureTensors = NO_TENSORS
) -> Call:
    """Return the call on ``inputs`` (q, k, v) with new outputs."""
    q, k, v = (readable(_as_rank_4(tensor)) for tensor in inputs)
    out, lse = new_outputs(problem, inputs[0])
    partial = new_partial(problem, out) if problem.variant.is_split else ()
    given = (tensors.q_rope, tensors.k_rope)
    rope = tuple(readable(_as_rank_4(tensor)) for tensor in given if tensor is not None)
    described = AttentionCall(
        q=_operand(q),
        k=_operand(k),
        v=_operand(v),
        o=_operand(_as_rank_4(out)),
        softmax_scale=problem.scale,
        lse=0 if lse is None else lse.data_ptr(),
        extras=()
        if problem.features is PLAIN
        else tuple(_extras(problem, tensors, (out, *partial))),
        longest=problem.sizes if problem.features.has_lengths else None,
        num_splits=problem.features.num_splits,
        value_scale=problem.scales.v,
        rope=tuple(map(_operand, rope)),
    )
    return Call((q, k, v), out, lse, described, (*tensors.all(), *rope), partial)


def new_partial(problem: Problem, out: Any) -> tuple[Any, Any]:
    """Return uninitialised O (split, row, head_dim_v) and LSE (split, row) of every split.

    Row ``r`` is head ``r % heads`` of query ``r // heads``.
    """
    import torch

    rows = (problem.features.num_splits, out[..., 0].numel())
    depth = (*rows, problem.head_dim_v)
    return tuple(torch.empty(s, dtype=torch.float32, device=out.device) for s in (depth, rows))


def _as_rank_4(tensor: Any) -> Any:
    """Return packed rows (total, heads, head_dim) as a batch of one."""
    return tensor if tensor.dim() == len(DENSE) else tensor.unsqueeze(0)


def _extras(
    problem: Problem, tensors: FeatureTensors, written: tuple[Any, ...]
) -> Iterator[tuple[str, int]]:
    """Yield name and value of every parameter that the features add; ``written``: O, partials."""
    variant = problem.variant
    values = {"o": written[0].data_ptr(), "total_q": written[0].shape[0]}
    if variant.is_split:
        _, partial_o, partial_lse = written
        values |= {"partial_o": partial_o.data_ptr(), "partial_lse": partial_lse.data_ptr()}
        values |= {"num_splits": partial_lse.shape[0], "partial_rows": partial_lse.shape[1]}
    for name in _READ_ARRAYS:
        tensor = getattr(tensors, name)
        values |= {} if tensor is None else {name: tensor.data_ptr()}
    if tensors.page_table is not None:
        values["pages_per_row"] = tensors.page_table.shape[1]
    if tensors.k_scale is not None:
        values["k_scale_row"] = tensors.k_scale.shape[2]
    for slot, tensor in enumerate(tensors.padding):
        values[f"padding{slot}"] = tensor.data_ptr()
    for slot, tensor in enumerate(tensors.biases):
        values[f"bias{slot}"] = tensor.data_ptr()
        values |= zip(bias_strides(slot), _byte_strides(tensor), strict=False)
    for slot, tensor in enumerate(tensors.aux):
        values[f"aux{slot}"] = tensor.data_ptr()
        values |= zip(aux_strides(slot, tensor.dim()), _byte_strides(tensor), strict=True)
    for name in variant.tensor_names:
        yield name, values[name]


_READ_ARRAYS: Final = (
    "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "sink", "q_scale", "k_scale",
)  # fmt: skip
"""Feature tensors whose address is the parameter of the same name."""


def _byte_strides(tensor: Any) -> list[int]:
    """Return the strides in bytes; 0 for a dimension of one element, which stands for all."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [0 if size == 1 else stride * tensor.element_size() for size, stride in pairs]


def extent(tensor: Any, *, writable: bool) -> HostBuffer:
    """Return the bytes from the first to the last element of a CPU tensor."""
    span = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    size = span * tensor.element_size() if tensor.numel() else 0
    return HostBuffer(tensor.data_ptr(), size, writable)


def _operand(tensor: Any) -> Operand:
    return Operand(tensor.data_ptr(), OperandLayout(tuple(tensor.shape), tuple(tensor.stride())))
