"""``Partial``: results of calls over some of the keys, kept until they are joined.

With ``L`` the log-sum-exp of a row, its O over two sets of keys is
``exp(L1 - L) O1 + exp(L2 - L) O2`` where ``L = log(exp(L1) + exp(L2))``. The weights are at most 1
and sum up to 1. A row that saw no key has ``L = -inf``, and its weight is 0. The combine kernel
reads all of a row's results once and weighs them in float32.
"""

from __future__ import annotations

from typing import Any

from ..host.ask.outputs import wanted_lse, wanted_out
from ..host.run.combine import combined
from ..plan.ranks.places import Place


class Partial:
    """O and log-sum-exp of this rank's rows over the keys so far.

    Args:
        q: (..., rows, heads, head_dim): whose rows; there may be a batch before them.
        head_dim_v: elements of a row of O.
        places: how many results of the same row are kept, besides that of ``sink``.
        sink: (heads,) float32 or None: an attention sink, which joins the denominator.
    """

    def __init__(self, q: Any, head_dim_v: int, places: int, sink: Any = None) -> None:
        """Start with no key."""
        import torch

        wanted = wanted_out(q, head_dim_v)
        count = max(places, 1) + (sink is not None)
        like = {"dtype": getattr(torch, wanted.dtype), "device": q.device}
        self.out = torch.empty((count, *wanted.shape), **like)
        shape = (count, *wanted_lse(q).shape)
        self.lse = torch.full(shape, -torch.inf, dtype=torch.float32, device=q.device)
        self._sink = sink
        self._rows = q.shape[-3]
        self._kept = 0
        if sink is not None:
            # A key with the value 0 that every row sees.
            self.out[-1].zero_()
            self.lse[-1] = sink.unsqueeze(-1)

    def room(self, place: Place, rows: Any) -> Any:
        """Return where a call may write O of ``rows``, or None where rows are apart in memory.

        Args:
            place: of the call's result.
            rows: a slice, or an index tensor without repetitions.
        """
        if place.folds:
            self._fold()
        found = self.out[place.number][..., rows, :, :]
        return found if isinstance(rows, slice) and found.is_contiguous() else None

    def add(self, place: Place, rows: Any, out: Any, lse: Any) -> None:
        """Keep the results of a call, for which :meth:`room` was asked before.

        Args:
            place: where.
            rows: whose results they are.
            out: (..., rows, heads, head_dim_v); nothing is copied if it is that room.
            lse: (..., heads, rows), natural logarithm.
        """
        self._kept += out.shape[-3]
        kept = self.out[place.number]
        if out.untyped_storage().data_ptr() != kept.untyped_storage().data_ptr():
            kept[..., rows, :, :] = out
        self.lse[place.number][..., rows] = lse

    def _fold(self) -> None:
        """Join everything into the first place, but for the sink."""
        import torch

        used = len(self.out) - (self._sink is not None)
        self.out[0], self.lse[0] = combined(self.out[:used], self.lse[:used])
        self.lse[1:used] = -torch.inf

    def finished(self) -> tuple[Any, Any]:
        """Return O and LSE over all keys and the sink."""
        if len(self.out) == 1 and self._kept == self._rows:
            return self.out[0], self.lse[0]
        return combined(self.out, self.lse)
