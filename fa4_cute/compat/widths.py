"""Head dimensions that no kernel has: padded before the call, cut off after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

Inputs = tuple[Any, Any, Any]
MULTIPLE: Final = 8
"""Elements of 16 bits in a 16-byte row of TMA."""


@dataclass(frozen=True)
class Widths:
    """Head dimensions of q and v as given, and the softmax scale that belongs to them.

    Attributes:
        of_v: columns of the result.
        is_padded: whether q, k or v need further columns.
        scale: softmax scale; None means ``1 / sqrt(head_dim)``, of a head_dim that is not padded.
    """

    of_v: int
    is_padded: bool
    scale: float | None

    @classmethod
    def of(cls, q: Any, v: Any, softmax_scale: float | None) -> Widths:
        """Return those of ``q`` and ``v``; only tensors of 16 bits are padded."""
        if not all(hasattr(x, "element_size") and x.dim() for x in (q, v)):
            return cls(0, False, softmax_scale)  # refused by the call, in its words
        of_q, of_v = int(q.shape[-1]), int(v.shape[-1])
        odd = any(width == 0 or width % MULTIPLE for width in (of_q, of_v))
        is_padded = bool(odd and of_q and of_v and q.element_size() == v.element_size() == 2)
        if is_padded and softmax_scale is None:
            softmax_scale = of_q**-0.5
        return cls(of_v, is_padded, softmax_scale)

    @classmethod
    def as_given(cls, v: Any) -> Widths:
        """Return those of a cache, which is too large to be copied for every call."""
        return cls(int(v.shape[-1]), False, None)

    def padded(self, q: Any, k: Any, v: Any) -> Inputs:
        """Return q, k and v with zeros up to a multiple of 8 columns."""
        if not self.is_padded:
            return q, k, v
        import torch

        pad = torch.nn.functional.pad
        return cast(Inputs, tuple(pad(x, (0, -x.shape[-1] % MULTIPLE)) for x in (q, k, v)))

    def writable(self, out: Any) -> Any:
        """Return ``out`` if the kernel may write into it, else None: O is then copied there."""
        return None if out is None or self.is_padded or not out.is_contiguous() else out

    def cut(self, result: Any, out: Any) -> Any:
        """Return the columns of ``result`` that were asked for, in ``out`` if there is one."""
        if result is out:
            return out
        found = result[..., : self.of_v] if self.is_padded else result
        return found if out is None else out.copy_(found)
