"""Scales of fp8 operands: what a stored element stands for is the element times its scale.

The scales of whole q and k are factors of the scores and join the softmax scale on the host; the
scale of v is a factor of O, which the kernel applies when it normalises. With a scale for every
token of q or k the kernel multiplies the scores itself.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ...plan.config.token_rows import COPIES, copy_floats, row_floats
from ...plan.facts.numbers import LOG2_E, MAX_FLOAT32, MAX_SEQLEN, as_float
from ...plan.facts.tensor_map_bits import ALIGN
from .arguments import Options
from .checks import check_device, check_readable, kind_of
from .sequences import Sequences

TORCH_NAME: Final = "torch.float8_e4m3fn"
"""Element type whose operands have scales."""


@dataclass(frozen=True)
class Scales:
    """One factor per operand.

    Attributes:
        q, k, v: finite numbers.
    """

    q: float = 1.0
    k: float = 1.0
    v: float = 1.0

    @property
    def of_scores(self) -> float:
        """Factor of the scores."""
        return self.q * self.k


UNSCALED: Final = Scales()


_NAMES: Final = ("q_scale", "k_scale", "v_scale")


def scales_of(options: Options, q: Any) -> Scales:
    """Return the numbers of ``options`` for operands like ``q``; 1 for scales of every token.

    A tensor of one element is read back, for which a CUDA call waits for the device.

    Raises:
        TypeError: a scale is no number and no tensor.
        ValueError: a scale is not finite or lies on another device, the scale of v has more than
            one element, or the operands are not fp8.
    """
    values = {name: getattr(options, name) for name in _NAMES}
    if all(value is None for value in values.values()):
        return UNSCALED
    tokens = {name for name in ("q_scale", "k_scale") if _is_by_token(values[name])}
    numbers_of = {
        name: 1.0 if name in tokens else _number(name, value, q) for name, value in values.items()
    }
    if str(q.dtype) != TORCH_NAME:
        first = next(name for name, value in values.items() if value is not None)
        raise ValueError(
            f"{first}: only operands of {TORCH_NAME} have scales, not {q.dtype}; nearest "
            f"supported choice: softmax_scale for the scores, or {first}=None"
        )
    return Scales(*numbers_of.values())


def token_scales_of(options: Options, q: Any, k: Any, *, where: Sequences) -> tuple[Any, Any]:
    """Return the scales of every token as the kernel reads them, those of q and those of k.

    Those of q are contiguous and have its shape without head_dim. Those of k are (batch,
    num_kv_heads, row), with room for a tile after the last key, because the kernel loads the scales
    of whole key tiles; (1, num_kv_heads, row) of packed keys, or (num_pages, num_kv_heads,
    page_size). Both are float32, and both are None when neither q nor k has any.

    Args:
        options: the arguments of the call.
        q: (batch, seqlen_q, heads, head_dim), or (total_q, heads, head_dim).
        k: (batch, seqlen_k, heads, head_dim), or (total_k, heads, head_dim), or pages of it.
        where: where the sequences lie.

    Raises:
        TypeError: a scale is not float32.
        ValueError: a scale has another shape than its operand without head_dim, or lies elsewhere.
    """
    if not (_is_by_token(options.q_scale) or _is_by_token(options.k_scale)):
        return None, None
    packed = where.cu_seqlens_k is not None
    by_head = key_layout(paged=bool(where.page_size), packed=packed)
    keys = by_head(_by_token("k_scale", options.k_scale, k))
    if packed:
        keys = keys.flatten(1).unsqueeze(0)
    return _by_token("q_scale", options.q_scale, q).contiguous(), keys


def key_layout(*, paged: bool, packed: bool) -> Callable[[Any], Any]:
    """Return what lays the scales of keys out by head, as the kernel reads them."""
    return _by_page if paged else _packed if packed else _padded


def _is_by_token(value: Any) -> bool:
    return hasattr(value, "numel") and value.numel() != 1


def _by_token(name: str, value: Any, operand: Any) -> Any:
    """Return the checked scales of an operand; ones when its only scale is a number."""
    import torch

    if not _is_by_token(value):
        return ones_for(operand)
    want = tuple(operand.shape[:-1])
    check_device(name, value, operand)
    if value.dtype != torch.float32:
        raise TypeError(
            f"{name}.dtype={value.dtype}: expected float32; nearest supported choice: "
            f"{name}.float()"
        )
    if tuple(value.shape) != want:
        raise ValueError(
            f"{name}: shape {tuple(value.shape)}; nearest supported choice: {want}, a scale for "
            f"every token and head, or one element"
        )
    return value.detach()


def ones_for(operand: Any) -> Any:
    """Return a scale of 1 for every token and head of an operand."""
    import torch

    return torch.ones(operand.shape[:-1], dtype=torch.float32, device=operand.device)


def _padded(scales: Any) -> Any:
    """Return key scales (batch, seqlen_k, heads) by head, with room for the last tile."""
    import torch

    seqlen_k = scales.shape[1]
    padded = torch.constant_pad_nd(scales.mT, (0, row_floats(seqlen_k) - seqlen_k))
    return padded.contiguous()


def _packed(scales: Any) -> Any:
    """Return key scales (total_k, heads) as (heads, copies, row): copies as of ``token_rows``.

    Raises:
        ValueError: a row has more floats than the kernel counts.
    """
    import torch

    total, heads = scales.shape
    width = copy_floats(total)
    if COPIES * width > MAX_SEQLEN:
        raise ValueError(
            f"k_scale: scales of {total} packed keys exceed what the kernel counts; nearest "
            f"supported choice: {MAX_SEQLEN // COPIES - copy_floats(0)} keys, or pages"
        )
    of_key, of_head = scales.stride()
    copies = scales.as_strided((heads, COPIES, total), (of_head, 0, of_key))
    return torch.constant_pad_nd(copies, (0, width - total))


def _by_page(scales: Any) -> Any:
    """Return key scales (num_pages, page_size, heads) by head, where a bulk copy can start.

    A copy only if need be.
    """
    import torch

    scales = scales.transpose(1, 2)
    if scales.is_contiguous() and (scales.device.type == "meta" or scales.data_ptr() % ALIGN == 0):
        return scales
    return scales.clone(memory_format=torch.contiguous_format)


def check_range(*, of_scores: float, of_values: float) -> None:
    """Refuse factors of the scores (the softmax scale included) and of O that are no float32.

    Raises:
        ValueError: naming the arguments.
    """
    if abs(of_scores) * LOG2_E > MAX_FLOAT32:
        raise ValueError(
            f"softmax_scale * q_scale * k_scale = {of_scores:.4g}: its product with log2(e) "
            f"exceeds float32; nearest supported choice: at most {MAX_FLOAT32 / LOG2_E:.4g}"
        )
    if abs(of_values) > MAX_FLOAT32:
        raise ValueError(
            f"v_scale={of_values:.4g}: exceeds float32; nearest supported choice: at most "
            f"{MAX_FLOAT32:.4g}"
        )


def _number(name: str, value: Any, q: Any) -> float:
    if value is None:
        return 1.0
    if hasattr(value, "numel") and hasattr(value, "item"):
        check_device(name, value, q)
        if value.numel() != 1:
            raise ValueError(
                f"{name}: shape {tuple(value.shape)}; nearest supported choice: a tensor of one "
                f"element, or a number"
            )
        check_readable(name, value, f"{name} as a number")
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name}={value!r}: expected a number or a tensor of one element, got {kind_of(value)}"
        )
    number = as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name}={number}: must be finite; nearest supported choice: 1.0")
    return number
