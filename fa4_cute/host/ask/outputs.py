"""What a call writes: shapes and types of O and of the log-sum-exp, and tensors given for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ...plan.facts.tensor_map_bits import ALIGN
from .arguments import Inputs, Options
from .checks import DENSE, PACKED, Layout, check_device, check_no_grad, check_tensor
from .scales import TORCH_NAME


class Wanted(NamedTuple):
    """Shape, dimensions and name of the element type of a tensor that is written."""

    shape: tuple[int, ...]
    layout: Layout
    dtype: str


class Outputs(NamedTuple):
    """Tensors that a caller gives for O and the log-sum-exp; None where they are to be made."""

    out: Any = None
    lse: Any = None


NEW: Final = Outputs()


def wanted_out(q: Any, head_dim_v: int) -> Wanted:
    """Return what O is: the shape of ``q`` with ``head_dim_v`` elements a row."""
    dtype = "bfloat16" if str(q.dtype) == TORCH_NAME else str(q.dtype).removeprefix("torch.")
    return Wanted((*q.shape[:-1], head_dim_v), DENSE if q.dim() == len(DENSE) else PACKED, dtype)


def wanted_lse(q: Any) -> Wanted:
    """Return what the log-sum-exp is: (batch, heads, seqlen_q), (heads, total_q) of packed q."""
    layout = ("batch", "heads", "seqlen_q") if q.dim() == len(DENSE) else ("heads", "total_q")
    return Wanted((*q.shape[:-3], q.shape[-2], q.shape[-3]), layout, "float32")


def given_outputs(options: Options, inputs: Inputs, read: Iterable[Any]) -> Outputs:
    """Return ``out`` and ``lse`` of ``options``, checked.

    Args:
        options: the arguments of the call.
        inputs: q, k and v.
        read: what else the kernel reads.

    Raises:
        TypeError: no tensor, another element type, or ``lse`` without ``return_lse``.
        ValueError: another shape or device, strided, not aligned, or memory of an input.
        NotImplementedError: it requires grad, or is no plain tensor.
    """
    out, lse = options.out, options.lse
    if out is None and lse is None:
        return NEW
    if lse is not None and not options.return_lse:
        raise TypeError("lse: given, but return_lse=False; nearest supported choice: both or none")
    q, _, v = inputs
    others = list(zip("qkv", inputs, strict=True))
    others += [("another argument", tensor) for tensor in read if tensor is not None]
    if out is not None:
        _check("out", out, wanted_out(q, v.shape[-1]), q)
        _check_apart("out", out, others)
        others.append(("out", out))
    if lse is not None:
        _check("lse", lse, wanted_lse(q), q)
        _check_apart("lse", lse, others)
    return Outputs(out, lse)


def _check(name: str, tensor: Any, wanted: Wanted, q: Any) -> None:
    check_tensor(name, tensor, wanted.layout)
    check_device(name, tensor, q)
    check_no_grad({name: tensor})
    if str(tensor.dtype) != f"torch.{wanted.dtype}":
        raise TypeError(
            f"{name}.dtype={tensor.dtype}: nearest supported choice: torch.{wanted.dtype}"
        )
    if tuple(tensor.shape) != wanted.shape:
        raise ValueError(
            f"{name}: shape {tuple(tensor.shape)}; nearest supported choice: {wanted.shape}"
        )
    if not tensor.is_contiguous() or tensor.is_neg():
        raise ValueError(
            f"{name}: strides {tensor.stride()}; nearest supported choice: a contiguous tensor"
        )
    if tensor.device.type != "meta" and tensor.data_ptr() % ALIGN:
        raise ValueError(
            f"{name}: starts at {tensor.data_ptr():#x}; nearest supported choice: a multiple of "
            f"{ALIGN} bytes"
        )


def _check_apart(name: str, tensor: Any, others: Iterable[tuple[str, Any]]) -> None:
    """Refuse memory between the first and the last byte of another tensor."""
    if tensor.device.type == "meta":
        return
    first, end = span(tensor)
    for other_name, other in others:
        start, stop = span(other)
        if first < stop and start < end:
            raise ValueError(
                f"{name}: shares memory with {other_name}; nearest supported choice: memory of "
                f"its own"
            )


def span(tensor: Any) -> tuple[int, int]:
    """Return the addresses of the first byte of a tensor and of the one after its last."""
    address = int(tensor.data_ptr())
    if not tensor.numel():
        return address, address
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return address, address + (sum((n - 1) * s for n, s in pairs) + 1) * tensor.element_size()
