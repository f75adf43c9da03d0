"""Checks of single arguments, and of what must agree between q, k and v.

Every error names the argument, its value and, where there is one, the nearest supported choice.
torch is not imported: whoever passes a tensor has imported it already.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Mapping
from typing import Any, Final

from ...plan.facts.numbers import LOG2_E, MAX_FLOAT32, as_float
from .arguments import Inputs, Options

Layout = tuple[str, ...]
_MOST_DIVISORS: Final = 1 << 16
"""All divisors of numbers below 2**32 are at most this, or what such a one divides them by."""
DENSE: Final[Layout] = ("batch", "seqlen", "heads", "head_dim")
PACKED: Final[Layout] = ("total", "heads", "head_dim")
PAGED: Final[Layout] = ("num_pages", "page_size", "heads", "head_dim")


def check_inputs(inputs: Inputs, options: Options, layouts: tuple[Layout, Layout]) -> None:
    """Check q, k and v and, where they are tensors of their own, the rope columns of q and k.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`check_tensor`, or they do not fit, or
            one of them requires grad; or ``unchecked`` is no flag.
    """
    check_operands(*inputs, layouts=layouts)
    check_no_grad(dict(zip("qkv", inputs, strict=True)))
    check_flag("unchecked", options.unchecked)
    rope = options.rope
    if rope is not None:
        check_rope(rope, inputs, layouts)
        check_no_grad(dict(zip(("q_rope", "k_rope"), rope, strict=True)))


def check_tensor(name: str, value: Any, layout: Layout = DENSE) -> None:
    """Refuse ``value`` unless it is a dense torch tensor with the dimensions of ``layout``.

    Raises:
        TypeError: not a tensor.
        ValueError: wrong rank, or its memory was freed.
        NotImplementedError: nested, a subclass, or a layout other than strided.
    """
    check_kind(name, value)
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise NotImplementedError(
            f"{name}: {kind_of(value)} is a tensor subclass, whose memory may not be what it "
            f"seems; nearest supported choice: {name}.as_subclass(torch.Tensor)"
        )
    if value.layout != torch.strided:
        raise NotImplementedError(
            f"{name}.layout={value.layout}: only strided tensors are supported; nearest supported "
            f"choice: {name}.to_dense()"
        )
    if value.dim() != len(layout):
        raise ValueError(
            f"{name}: shape {tuple(value.shape)} has {value.dim()} dimensions; expected "
            f"({', '.join(layout)})"
        )
    if not value.is_meta and value.numel() and not value.data_ptr():
        raise ValueError(
            f"{name}: shape {tuple(value.shape)}, but its memory was freed, as by "
            f"untyped_storage().resize_(0); nearest supported choice: a tensor with memory"
        )


def check_kind(name: str, value: Any) -> None:
    """Refuse ``value`` unless it is a torch tensor, of whatever class, with sizes.

    Raises:
        TypeError: not a tensor.
        NotImplementedError: a nested one.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {kind_of(value)}")
    if value.is_nested:
        raise NotImplementedError(
            f"{name}: a nested tensor, which has no sizes; nearest supported choice: "
            f"fa4_cute.flash_attn_varlen with the values of a jagged one, and its offsets as "
            f"cu_seqlens"
        )


def check_device(name: str, tensor: Any, q: Any) -> None:
    """Refuse a tensor that is not where ``q`` is."""
    if tensor.device != q.device:
        raise ValueError(
            f"{name}.device={tensor.device} differs from q.device={q.device}; nearest supported "
            f"choice: {name}.to({str(q.device)!r})"
        )


def check_operands(q: Any, k: Any, v: Any, *, layouts: tuple[Layout, Layout]) -> None:
    """Check q, k and v and what must agree between them.

    Args:
        q, k, v: the tensors.
        layouts: dimensions of q, and of k and v.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`check_tensor`, or they do not fit.
    """
    of_q, of_k = layouts
    for name, tensor, layout in (("q", q, of_q), ("k", k, of_k), ("v", v, of_k)):
        check_tensor(name, tensor, layout)
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise TypeError(
                f"{name}.dtype={tensor.dtype} differs from q.dtype={q.dtype}; nearest supported "
                f"choice: {name}.to({q.dtype})"
            )
        if tensor.device != q.device:
            raise ValueError(
                f"{name}.device={tensor.device} differs from q.device={q.device}; move all three "
                f"to one device"
            )
        if of_q[0] == of_k[0] == "batch":
            _check_equal((name, tensor, of_k), ("q", q, of_q), "batch")
    _check_equal(("k", k, of_k), ("q", q, of_q), "head_dim")
    for axis in of_k[:-1]:
        _check_equal(("v", v, of_k), ("k", k, of_k), axis)
    heads_q, heads_k = q.shape[-2], k.shape[-2]
    if heads_q and (heads_k == 0 or heads_q % heads_k):
        raise ValueError(divisibility(heads_q, heads_k))


def check_rope(
    rope: tuple[Any, Any], inputs: Inputs, layouts: tuple[Layout, Layout]
) -> None:
    """Check rope columns of q and k that are tensors of their own, against q, k and v.

    Those of k may have a single head, which then serves all heads.

    Raises:
        TypeError, ValueError, NotImplementedError: as :func:`check_tensor`, or they do not fit.
    """
    q, k, v = inputs
    for name, tensor, other, layout in zip(("q_rope", "k_rope"), rope, "qk", layouts, strict=True):
        check_tensor(name, tensor, layout)
        check_device(name, tensor, q)
        axes = layout[:-2] if name == "k_rope" and tensor.shape[-2] == 1 else layout[:-1]
        for axis in axes:
            _check_equal((name, tensor, layout), (other, k if other == "k" else q, layout), axis)
    q_rope, k_rope = rope
    _check_equal(("k_rope", k_rope, layouts[1]), ("q_rope", q_rope, layouts[0]), "head_dim")
    if k_rope.dtype != q_rope.dtype:
        raise TypeError(
            f"k_rope.dtype={k_rope.dtype} differs from q_rope.dtype={q_rope.dtype}; nearest "
            f"supported choice: k_rope.to({q_rope.dtype})"
        )
    if q_rope.dtype == q.dtype and not is_shared(k_rope, k):
        raise ValueError(
            f"q_rope.dtype={q_rope.dtype} is that of q, and k_rope has as many heads as k; nearest "
            f"supported choice: torch.cat((q, q_rope), -1), and the same for k"
        )
    _check_equal(("q", q, layouts[0]), ("v", v, layouts[1]), "head_dim")


def is_shared(k_rope: Any, k: Any) -> bool:
    """Return whether the one head of ``k_rope`` serves several heads of ``k``."""
    return int(k_rope.shape[-2]) == 1 < int(k.shape[-2])


def divisibility(heads_q: int, heads_k: int) -> str:
    """Return the sentence that refuses ``heads_q`` query heads over ``heads_k`` key/value heads."""
    small = [n for n in range(1, min(math.isqrt(heads_q), _MOST_DIVISORS) + 1) if heads_q % n == 0]
    fitting = (*small, *(heads_q // n for n in small))
    nearest = min(fitting, key=lambda n: (abs(n - heads_k), n))
    return (
        f"q has {heads_q} heads, which is not a multiple of the {heads_k} heads of k and v (axis 2 "
        f"of ({', '.join(DENSE)})); nearest supported choice: {nearest} key/value heads"
    )


def check_no_grad(tensors: Mapping[str, Any]) -> None:
    """Refuse tensors that ask for a backward pass: a silent detach would train nothing."""
    if not sys.modules["torch"].is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            raise NotImplementedError(
                f"{name}.requires_grad=True: there is a forward pass only; nearest supported "
                f"choice: call under torch.no_grad(), or pass {name}.detach()"
            )


def check_readable(name: str, tensor: Any, instead: str = "unchecked=True") -> None:
    """Refuse to read values back while a CUDA graph is captured, where waiting is not allowed.

    Args:
        name: argument.
        tensor: what would be read.
        instead: what to do.

    Raises:
        NotImplementedError: torch's current stream is being captured.
    """
    if tensor.is_cuda and sys.modules["torch"].cuda.is_current_stream_capturing():
        raise NotImplementedError(
            f"{name}: its values would be read back, which the capture of a CUDA graph does not "
            f"allow; nearest supported choice: {instead}"
        )


def check_flag(name: str, value: Any) -> None:
    """Refuse ``value`` unless it is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected True or False, got {kind_of(value)}")


def check_name(name: str, value: Any) -> None:
    """Refuse ``value`` unless it is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected a name, got {kind_of(value)}")


def check_count(name: str, value: Any, least: int, nearest: str | None = None) -> None:
    """Refuse ``value`` unless it is an integer of ``least`` or more.

    ``nearest`` is what to choose instead of less; None: the least.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name}={value!r}: expected an integer, got {kind_of(value)}; nearest supported "
            f"choice: int({name})"
        )
    if value < least:
        raise ValueError(
            f"{name}={value}: must be {least} or more; nearest supported choice: "
            f"{nearest or f'{name}={least}'}"
        )


def check_scale(value: Any) -> None:
    """Accept None and any real number whose product with log2(e) is a finite float32."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"softmax_scale={value!r}: expected a real number or None, got {kind_of(value)}; "
            f"nearest supported choice: float(softmax_scale)"
        )
    scale = as_float(value)
    if not math.isfinite(scale):
        raise ValueError(
            f"softmax_scale={scale}: must be finite; nearest supported choice: None, which means "
            f"1 / sqrt(head_dim)"
        )
    if abs(scale) * LOG2_E > MAX_FLOAT32:
        raise ValueError(
            f"softmax_scale={scale}: its product with log2(e) exceeds float32; nearest supported "
            f"choice: at most {MAX_FLOAT32 / LOG2_E:.4g} in magnitude"
        )


def kind_of(value: Any) -> str:
    """Return the name of the type of ``value`` as a user writes it."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _check_equal(one: tuple[str, Any, Layout], other: tuple[str, Any, Layout], axis: str) -> None:
    name, tensor, layout = one
    other_name, other_tensor, other_layout = other
    index = layout.index(axis)
    have, want = tensor.shape[index], other_tensor.shape[other_layout.index(axis)]
    if have != want:
        raise ValueError(
            f"{name}: {axis}={have} (axis {index} of shape {tuple(tensor.shape)}) differs from "
            f"{axis}={want} of {other_name}, shape {tuple(other_tensor.shape)}; the layout is "
            f"({', '.join(layout)})"
        )
