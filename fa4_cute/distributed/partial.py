"""``Partial``: results over some of the keys, joined with results over others.

With ``L`` the log-sum-exp of a row, its O over two sets of keys is
``exp(L1 - L) O1 + exp(L2 - L) O2`` where ``L = log(exp(L1) + exp(L2))``. The weights are at most 1
and sum up to 1. A row that saw no key has ``L = -inf``, and its weight is 0.
"""

from __future__ import annotations

from typing import Any


class Partial:
    """O and log-sum-exp of this rank's rows over the keys so far, in float32.

    Args:
        q: (..., rows, heads, head_dim): whose rows; there may be a batch before them.
        head_dim_v: elements of a row of O.
    """

    def __init__(self, q: Any, head_dim_v: int) -> None:
        """Start with no key."""
        import torch

        *batch, rows, heads, _ = q.shape
        like = {"dtype": torch.float32, "device": q.device}
        self.out = torch.zeros((*batch, rows, heads, head_dim_v), **like)
        self.lse = torch.full((*batch, heads, rows), -torch.inf, **like)

    def add(self, rows: Any, out: Any, lse: Any) -> None:
        """Join results over further keys.

        Args:
            rows: a slice, or an index tensor without repetitions: whose results they are.
            out: (..., rows, heads, head_dim_v).
            lse: (..., heads, rows), natural logarithm.
        """
        import torch

        before = self.lse[..., rows]
        joined = torch.logaddexp(before, lse)
        # Of a slice these are the same memory, of an index tensor copies.
        whole = self.out[..., rows, :, :]
        whole.mul_(_weight(before, joined)).addcmul_(out, _weight(lse, joined))
        if not isinstance(rows, slice):
            self.out[..., rows, :, :] = whole
        self.lse[..., rows] = joined

    def finished(self, sink: Any, dtype: Any) -> tuple[Any, Any]:
        """Return O in ``dtype`` and LSE; ``sink`` (heads,), if any, joins the denominator."""
        import torch

        if sink is None:
            return self.out.to(dtype), self.lse
        joined = torch.logaddexp(self.lse, sink.unsqueeze(-1))
        return (self.out * _weight(self.lse, joined)).to(dtype), joined


def _weight(part: Any, whole: Any) -> Any:
    """Return what O of log-sum-exp ``part`` counts in ``whole``, shaped for a product with O."""
    import torch

    # Where the whole is -inf so is the part: exp(-inf - 0) is 0, while -inf - -inf is NaN.
    empty = whole == -torch.inf
    return (part - whole.masked_fill(empty, 0.0)).exp_().transpose(-1, -2).unsqueeze(-1)
