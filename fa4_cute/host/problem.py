"""``Problem``: one call of attention in plain numbers, and the errors of its arguments.

Tensors have the layout (batch, seqlen, heads, head_dim). Everything that is wrong with the
arguments themselves is said here; what no kernel can run is said by ``support``. torch is not
imported: whoever passes a tensor has imported it already.
"""

from __future__ import annotations

import math
import numbers
import sys
from dataclasses import dataclass
from typing import Any, Final

from ..plan.dtypes import DType
from ..plan.launch import LOG2_E, AttentionSizes

LAYOUT: Final = ("batch", "seqlen", "heads", "head_dim")
_MAX_FLOAT32: Final = (2 - 2**-23) * 2.0**127


@dataclass(frozen=True)
class Problem:
    """Shapes and options of one call.

    Attributes:
        dtype: element type of q, k and v: a name of ``plan.dtypes.DType``, or any other name.
        batch, seqlen_q, seqlen_k, num_q_heads, num_kv_heads: sizes, 0 or more.
        head_dim, head_dim_v: elements per row of q and k, and of v.
        causal: mask aligned to the bottom right corner.
        softmax_scale: factor of the scores; None means ``1 / sqrt(head_dim)``.
        return_lse: whether the log-sum-exp is wanted.
        num_qo: Q tiles per CTA, 1 or 2, where the kernel has a choice; None leaves it to the rules.
    """

    dtype: str
    batch: int
    seqlen_q: int
    seqlen_k: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    head_dim_v: int
    causal: bool = False
    softmax_scale: float | None = None
    return_lse: bool = False
    num_qo: int | None = None

    def __post_init__(self) -> None:
        """Refuse values outside the domain of the record."""
        for name in _SIZES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}={value!r}: expected an integer, got {_kind(value)}")
            if value < 0:
                raise ValueError(f"{name}={value}: must be 0 or more")
        for name in ("causal", "return_lse"):
            _check_flag(name, getattr(self, name))
        if self.num_qo not in (None, 1, 2):
            raise ValueError(f"num_qo={self.num_qo}: choose 1 or 2 Q tiles per CTA, or None")
        _check_scale(self.softmax_scale)

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.num_q_heads // max(1, self.num_kv_heads)

    @property
    def scale(self) -> float:
        """The softmax scale, with its default filled in."""
        if self.softmax_scale is None:
            return 1.0 / math.sqrt(max(1, self.head_dim))
        return float(self.softmax_scale)

    @property
    def sizes(self) -> AttentionSizes:
        """Sizes of the launch."""
        return AttentionSizes(
            self.batch, self.seqlen_q, self.seqlen_k, self.num_q_heads, self.num_kv_heads
        )

    @property
    def has_no_output(self) -> bool:
        """Whether the output has no element."""
        return 0 in (self.batch, self.seqlen_q, self.num_q_heads)

    @property
    def has_no_keys(self) -> bool:
        """Whether no query sees any key: the output is zeros, the log-sum-exp minus infinity."""
        return self.seqlen_k == 0

    @classmethod
    def from_tensors(
        cls,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool = False,
        softmax_scale: float | None = None,
        return_lse: bool = False,
    ) -> Problem:
        """Return the problem that the tensors pose.

        Raises:
            TypeError: an argument has the wrong type, or the element types differ.
            ValueError: shapes or devices do not fit together, or the scale is not finite.
            NotImplementedError: a tensor subclass or layout that has no plain memory, or a tensor
                that requires grad.
        """
        tensors = {"q": q, "k": k, "v": v}
        for name, tensor in tensors.items():
            check_tensor(name, tensor)
        _check_flag("causal", causal)
        _check_flag("return_lse", return_lse)
        _check_scale(softmax_scale)
        _check_together(q, k, v)
        _check_no_grad(tensors)
        batch, seqlen_q, num_q_heads, head_dim = q.shape
        return cls(
            dtype=dtype_name(q.dtype),
            batch=batch,
            seqlen_q=seqlen_q,
            seqlen_k=k.shape[1],
            num_q_heads=num_q_heads,
            num_kv_heads=k.shape[2],
            head_dim=head_dim,
            head_dim_v=v.shape[3],
            causal=causal,
            softmax_scale=softmax_scale,
            return_lse=return_lse,
        )


_SIZES: Final = (
    "batch", "seqlen_q", "seqlen_k", "num_q_heads", "num_kv_heads", "head_dim", "head_dim_v",
)  # fmt: skip


def dtype_name(dtype: Any) -> str:
    """Return the plan's name of ``dtype`` (a torch dtype, a ``DType`` or a name).

    Names the plan does not know are returned as they are; ``support`` refuses them.

    Raises:
        TypeError: when ``dtype`` is nothing of these.
    """
    if isinstance(dtype, DType):
        return dtype.value
    text = str(dtype)
    if not isinstance(dtype, str) and not text.startswith("torch."):
        raise TypeError(f"dtype={dtype!r}: expected a torch dtype or a name such as 'bf16'")
    name = text.removeprefix("torch.")
    try:
        return DType.parse(name).value
    except ValueError:
        return name


def check_tensor(name: str, value: Any) -> None:
    """Refuse ``value`` unless it is a dense torch tensor of rank 4.

    Raises:
        TypeError: not a tensor.
        ValueError: wrong rank.
        NotImplementedError: a subclass, or a layout other than strided.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {_kind(value)}")
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise NotImplementedError(
            f"{name}: {_kind(value)} is a tensor subclass, whose memory may not be what it seems; "
            f"nearest supported choice: {name}.as_subclass(torch.Tensor)"
        )
    if value.layout != torch.strided:
        raise NotImplementedError(
            f"{name}.layout={value.layout}: only strided tensors are supported; nearest supported "
            f"choice: {name}.to_dense()"
        )
    if value.dim() != len(LAYOUT):
        raise ValueError(
            f"{name}: shape {tuple(value.shape)} has {value.dim()} dimensions; expected "
            f"({', '.join(LAYOUT)})"
        )


def _check_together(q: Any, k: Any, v: Any) -> None:
    """Check what must agree between the three tensors."""
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
        _check_equal(name, tensor, "q", q, axis=0)
    _check_equal("k", k, "q", q, axis=3)
    _check_equal("v", v, "k", k, axis=1)
    _check_equal("v", v, "k", k, axis=2)
    heads_q, heads_k = q.shape[2], k.shape[2]
    if heads_q and (heads_k == 0 or heads_q % heads_k):
        raise ValueError(divisibility(heads_q, heads_k))


def divisibility(heads_q: int, heads_k: int) -> str:
    """Return the sentence that refuses ``heads_q`` query heads over ``heads_k`` key/value heads."""
    fitting = [n for n in range(1, heads_q + 1) if heads_q % n == 0]
    nearest = min(fitting, key=lambda n: (abs(n - heads_k), n))
    return (
        f"q has {heads_q} heads, which is not a multiple of the {heads_k} heads of k and v (axis 2 "
        f"of ({', '.join(LAYOUT)})); nearest supported choice: {nearest} key/value heads"
    )


def _check_equal(name: str, tensor: Any, other_name: str, other: Any, *, axis: int) -> None:
    have, want = tensor.shape[axis], other.shape[axis]
    if have != want:
        raise ValueError(
            f"{name}: {LAYOUT[axis]}={have} (axis {axis} of shape {tuple(tensor.shape)}) differs "
            f"from {LAYOUT[axis]}={want} of {other_name}, shape {tuple(other.shape)}; the layout "
            f"is ({', '.join(LAYOUT)})"
        )


def _check_no_grad(tensors: dict[str, Any]) -> None:
    """Refuse tensors that ask for a backward pass: a silent detach would train nothing."""
    if not sys.modules["torch"].is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            raise NotImplementedError(
                f"{name}.requires_grad=True: there is a forward pass only; nearest supported "
                f"choice: call under torch.no_grad(), or pass {name}.detach()"
            )


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected True or False, got {_kind(value)}")


def _check_scale(value: Any) -> None:
    """Accept None and any real number whose product with log2(e) is a finite float32."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"softmax_scale={value!r}: expected a real number or None, got {_kind(value)}; nearest "
            f"supported choice: float(softmax_scale)"
        )
    scale = float(value)
    if not math.isfinite(scale):
        raise ValueError(
            f"softmax_scale={scale}: must be finite; nearest supported choice: None, which means "
            f"1 / sqrt(head_dim)"
        )
    if abs(scale) * LOG2_E > _MAX_FLOAT32:
        raise ValueError(
            f"softmax_scale={scale}: its product with log2(e) exceeds float32; nearest supported "
            f"choice: at most {_MAX_FLOAT32 / LOG2_E:.4g} in magnitude"
        )


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
