"""What happens to scores before the softmax, written down from the definitions, with torch.

Nothing here is shared with the kernels or their plans: visibility is decided per element by
comparing indices, and modifiers are torch expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fa4_cute import masks
from fa4_cute.plan.masks.masks import (
    AndMask,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    NullMask,
    OrMask,
    PaddingMask,
    SlidingWindowMask,
)
from fa4_cute.score_mods import ScoreModifier, Step

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one sequence, and where they stand.

    Attributes:
        values: (heads, seqlen_q, seqlen_k), scaled.
        sequence: number of the sequence in its batch.
    """

    values: torch.Tensor
    sequence: int

    @property
    def queries(self) -> torch.Tensor:
        """Query indices, (seqlen_q, 1)."""
        return self._indices(1).unsqueeze(-1)

    @property
    def keys(self) -> torch.Tensor:
        """Key indices, (seqlen_k,)."""
        return self._indices(2)

    @property
    def rows(self) -> torch.Tensor:
        """Keys at which the queries stand, bottom-right aligned, (seqlen_q, 1)."""
        return self.queries + (self.values.shape[2] - self.values.shape[1])

    def modified(self, mod: Any, aux: Sequence[torch.Tensor]) -> Scores:
        """Return the scores after a modifier of ``score_mods`` or a function on tensors."""
        if not isinstance(mod, ScoreModifier):
            return Scores(self._called(mod, aux), self.sequence)
        found = self
        for step in mod.steps:
            found = Scores(_STEPS[step.kind](found, step), self.sequence)
        return found

    def capped(self, cap: float) -> Scores:
        """Return the scores after ``cap * tanh(score / cap)``."""
        return Scores(cap * (self.values / cap).tanh(), self.sequence)

    def plus(self, added: torch.Tensor) -> Scores:
        """Return the scores plus what a mask adds; hidden ones are minus infinity for certain."""
        hidden = added == -math.inf
        values = (self.values + added.to(self.values.dtype)).masked_fill(hidden, -math.inf)
        return Scores(values, self.sequence)

    def added_by(self, mask: masks.AttentionMask) -> torch.Tensor:
        """Return what ``mask`` adds to every score: 0, a bias, or minus infinity; float64."""
        return self._added(mask.plan, mask)

    def _added(self, plan: Mask, mask: masks.AttentionMask) -> torch.Tensor:
        import torch

        if isinstance(plan, AndMask):
            return self._added(plan.first, mask) + self._added(plan.second, mask)
        if isinstance(plan, OrMask):
            return torch.maximum(self._added(plan.first, mask), self._added(plan.second, mask))
        if isinstance(plan, DenseBiasMask):
            return self._bias(mask.biases[plan.slot]).double()
        rows, keys = self.rows, self.keys
        if isinstance(plan, NullMask):
            visible = in_window(rows, keys, (None, None))
        elif isinstance(plan, SlidingWindowMask):
            visible = in_window(rows, keys, (plan.left, plan.right))
        elif isinstance(plan, ChunkedMask):
            visible = torch.div(rows, plan.size, rounding_mode="floor") == keys // plan.size
        elif isinstance(plan, PaddingMask):
            length = int(mask.lengths[plan.slot][self.sequence])
            visible = in_window(rows, keys, (None, None)) & (keys < length)
        else:
            raise TypeError(f"{plan!r}: no definition")
        return torch.where(visible, 0.0, -math.inf).double()

    def _bias(self, bias: torch.Tensor) -> torch.Tensor:
        heads, seqlen_q, seqlen_k = self.values.shape
        own = bias[self.sequence if bias.shape[0] > 1 else 0]
        own = own[:, : seqlen_q if own.shape[1] > 1 else 1, :seqlen_k]
        return own.expand(heads, seqlen_q, seqlen_k)

    def _called(self, function: Callable[..., Any], aux: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        heads = torch.arange(self.values.shape[0]).view(-1, 1, 1)
        batch = torch.tensor(self.sequence)
        tensors = tuple(tensor.to(self.values.dtype) for tensor in aux)
        found = function(self.values, batch, heads, self.queries, self.keys, tensors)
        return torch.as_tensor(found, dtype=self.values.dtype).expand_as(self.values)

    def _indices(self, axis: int) -> torch.Tensor:
        import torch

        return torch.arange(self.values.shape[axis])


def in_window(
    rows: torch.Tensor, keys: torch.Tensor, sides: tuple[int | None, int | None]
) -> torch.Tensor:
    """Return which keys lie in the window of which rows; None leaves a side open."""
    import torch

    left, right = sides
    visible = torch.ones(torch.broadcast_shapes(rows.shape, keys.shape), dtype=torch.bool)
    if left is not None:
        visible &= keys >= rows - left
    if right is not None:
        visible &= keys <= rows + right
    return visible


def _softcap(scores: Scores, step: Step) -> torch.Tensor:
    return scores.capped(*step.constants).values


def _alibi(scores: Scores, step: Step) -> torch.Tensor:
    slopes = step.tensors[0]
    slopes = slopes if slopes.dim() == 1 else slopes[scores.sequence]
    distance = (scores.rows - scores.keys).abs()
    return scores.values - slopes.to(scores.values.dtype).view(-1, 1, 1) * distance


def _function(scores: Scores, step: Step) -> torch.Tensor:
    return scores._called(step.function, step.tensors)


_STEPS = {"softcap": _softcap, "alibi": _alibi, "function": _function}
