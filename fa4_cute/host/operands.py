"""Tensors as the kernel sees them: addresses, layouts, and copies where TMA cannot read in place.

TMA reads any tensor whose last dimension is contiguous, whose other strides are positive multiples
of 16 bytes below 2**40, and whose first element lies at a multiple of 16 bytes. Such tensors, views
of a packed QKV tensor among them, are used where they are; all others are copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.tensor_map_bits import ALIGN, MAX_STRIDE
from ..plan.tensor_maps import OperandLayout
from ..simulator import HostBuffer
from .launch import AttentionCall, Operand
from .problem import Problem


@dataclass(frozen=True)
class Call:
    """One call with its memory: tensors that live until the launch is over, and their description.

    Attributes:
        inputs: q, k and v, as they are or copied.
        out: the new output tensor.
        lse: the new log-sum-exp tensor, or None.
        described: addresses and layouts for the launch.
    """

    inputs: tuple[Any, Any, Any]
    out: Any
    lse: Any
    described: AttentionCall

    def host_buffers(self) -> list[HostBuffer]:
        """Return the memory of the call: inputs to be read, outputs to be written."""
        buffers = [extent(tensor, writable=False) for tensor in self.inputs]
        buffers += [extent(t, writable=True) for t in (self.out, self.lse) if t is not None]
        return buffers


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


def new_outputs(problem: Problem, like: Any) -> tuple[Any, Any]:
    """Return uninitialised O (batch, seqlen_q, heads, head_dim_v) and LSE, which may be None."""
    import torch

    shape = (problem.batch, problem.seqlen_q, problem.num_q_heads, problem.head_dim_v)
    out = torch.empty(shape, dtype=like.dtype, device=like.device)
    if not problem.return_lse:
        return out, None
    rows = (problem.batch, problem.num_q_heads, problem.seqlen_q)
    return out, torch.empty(rows, dtype=torch.float32, device=like.device)


def describe_call(problem: Problem, inputs: Sequence[Any]) -> Call:
    """Return the call on ``inputs`` (q, k, v) with new outputs."""
    q, k, v = (readable(tensor) for tensor in inputs)
    out, lse = new_outputs(problem, q)
    described = AttentionCall(
        q=_operand(q),
        k=_operand(k),
        v=_operand(v),
        o=_operand(out),
        softmax_scale=problem.scale,
        lse=0 if lse is None else lse.data_ptr(),
    )
    return Call((q, k, v), out, lse, described)


def extent(tensor: Any, *, writable: bool) -> HostBuffer:
    """Return the bytes from the first to the last element of a CPU tensor."""
    span = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    size = span * tensor.element_size() if tensor.numel() else 0
    return HostBuffer(tensor.data_ptr(), size, writable)


def _operand(tensor: Any) -> Operand:
    return Operand(tensor.data_ptr(), OperandLayout(tuple(tensor.shape), tuple(tensor.stride())))
