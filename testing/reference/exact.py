"""Attention by its definition, sequence by sequence: in float64, and as PyTorch computes it.

Both take the arguments of :func:`fa4_cute.flash_attn` or, with ``cu_seqlens_q``, of
:func:`fa4_cute.flash_attn_varlen`, and any element type. ``score_mod`` may also be a function on
tensors: (score, batch, head, q_idx, kv_idx, aux) with indices that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fa4_cute import masks
from testing.reference.scores import Scores, in_window

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Summands:
    """What the output of one sequence is the sum of.

    Attributes:
        p: (heads, seqlen_q, seqlen_k), the probabilities.
        v: (heads, seqlen_k, head_dim_v), the values of every query head.
    """

    p: torch.Tensor
    v: torch.Tensor


@dataclass(frozen=True, eq=False)
class Reference:
    """Exact results in float64.

    Attributes:
        out: (batch, seqlen_q, heads, head_dim_v), or (total_q, heads, head_dim_v).
        lse: (batch, heads, seqlen_q), or (heads, total_q); natural logarithm.
        weight: ``P |V|``, shape of ``out``: what relative errors of P are multiplied by.
        size: ``P |S|``, shape of ``lse``, of scores before anything but the softmax scale changes
            them: what relative errors of Q K' are multiplied by.
        summands: of every sequence.
    """

    out: torch.Tensor
    lse: torch.Tensor
    weight: torch.Tensor
    size: torch.Tensor
    summands: tuple[Summands, ...] = ()


@dataclass(frozen=True, eq=False)
class Call:
    """Arguments of a call besides q, k and v, under their own names."""

    causal: bool = False
    softmax_scale: float | None = None
    mask: Any = None
    window_size: tuple[int | None, int | None] | None = None
    score_mod: Any = None
    softcap: float | None = None
    aux_tensors: Sequence[torch.Tensor] = ()
    sink: torch.Tensor | None = None
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    seqused_k: torch.Tensor | None = None
    page_table: torch.Tensor | None = None
    max_seqlen_q: int | None = None
    max_seqlen_k: int | None = None
    num_splits: int | None = None
    split: str | None = None
    scheduler: str | None = None
    num_qo: int | None = None
    pair_cta: bool = False
    arch: str | None = None
    unchecked: bool = False
    q_rope: torch.Tensor | None = None
    k_rope: torch.Tensor | None = None

    def with_rope(
        self, q: torch.Tensor, k: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return q and k, with their rope columns if these are tensors of their own."""
        import torch

        if self.q_rope is None or self.k_rope is None:
            return q, k
        # One head of rope columns serves all heads of the keys.
        k_rope = self.k_rope.expand(*k.shape[:-1], -1)
        pairs = ((q, self.q_rope), (k, k_rope))
        of_q, of_k = (torch.cat([x.to(dtype), rope.to(dtype)], -1) for x, rope in pairs)
        return of_q, of_k

    @property
    def is_packed(self) -> bool:
        """Whether queries and results are packed."""
        return self.cu_seqlens_q is not None


@dataclass(frozen=True, eq=False)
class OneSequence:
    """Operands of one sequence: q (seqlen_q, heads, d), k and v (seqlen_k, kv heads, d)."""

    number: int
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def attention_float64(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
) -> Reference:
    """Return attention in float64; arguments as :func:`fa4_cute.flash_attn`, any element type."""
    import torch

    call = Call(**options)
    outs, lses, weights, sizes, summands = [], [], [], [], []
    for one in sequences((*call.with_rope(q, k, torch.float64), v), call):
        heads = [t.detach().double().transpose(0, 1) for t in _grouped(one)]
        products = heads[0] @ heads[1].transpose(1, 2)
        scores = _scores(products, one, call)
        lse = torch.logsumexp(_with_sink(scores, call), dim=-1)
        seen = torch.isneginf(scores)
        p = torch.where(seen, 0.0, torch.exp(scores - lse.unsqueeze(-1)))
        outs.append((p @ heads[2]).transpose(0, 1))
        weights.append((p @ heads[2].abs()).transpose(0, 1))
        lses.append(lse)
        sizes.append((p * products.abs()).sum(-1) * abs(scale_of(q, call.softmax_scale)))
        summands.append(Summands(p, heads[2]))
    empty = q.new_zeros((0, q.shape[-2], v.shape[-1]), dtype=torch.float64)
    none = q.new_zeros((q.shape[-2], 0), dtype=torch.float64)
    if call.is_packed:
        found = [torch.cat([empty, *x]) for x in (outs, weights)]
        of_rows = [torch.cat([none, *x], 1) for x in (lses, sizes)]
    else:
        shape = (0, *q.shape[1:-1], v.shape[-1])
        found = [torch.stack(x) if x else empty.new_zeros(shape) for x in (outs, weights)]
        shape = (0, q.shape[2], q.shape[1])
        of_rows = [torch.stack(x) if x else none.new_zeros(shape) for x in (lses, sizes)]
    return Reference(found[0], of_rows[0], found[1], of_rows[1], tuple(summands))


def attention_plain(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
) -> torch.Tensor:
    """Return attention as plain PyTorch computes it in the element type of ``q``.

    Products are rounded to that type, modifiers and softmax run in float32, and P is rounded before
    it meets V. Shapes as :func:`fa4_cute.flash_attn`.
    """
    import torch

    call = Call(**options)
    outs = []
    for one in sequences((*call.with_rope(q, k, q.dtype), v), call):
        heads = [t.detach().transpose(0, 1) for t in _grouped(one)]
        scores = _scores((heads[0] @ heads[1].transpose(1, 2)).float(), one, call)
        weights = torch.softmax(_with_sink(scores, call), dim=-1)[..., : one.k.shape[0]]
        outs.append((weights.nan_to_num(0.0).to(q.dtype) @ heads[2]).transpose(0, 1))
    if call.is_packed:
        return torch.cat([q.new_zeros((0, q.shape[1], v.shape[-1])), *outs])
    return torch.stack(outs) if outs else q.new_zeros((*q.shape[:-1], v.shape[-1]))


def sequences(
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], call: Call
) -> Iterator[OneSequence]:
    """Yield the operands of every sequence, copied out of packed rows and pages."""
    q, k, v = inputs
    starts = None if call.cu_seqlens_q is None else call.cu_seqlens_q.tolist()
    for number in range(q.shape[0] if starts is None else len(starts) - 1):
        own = q[number] if starts is None else q[starts[number] : starts[number + 1]]
        yield OneSequence(number, own, _keys(k, number, call), _keys(v, number, call))


def scale_of(q: torch.Tensor, softmax_scale: float | None) -> float:
    """Return the scale in use: the given one, or ``1 / sqrt(head_dim)``."""
    return 1.0 / math.sqrt(q.shape[-1]) if softmax_scale is None else float(softmax_scale)


def visible(seqlen_q: int, seqlen_k: int) -> torch.Tensor:
    """Return which keys each query sees under the bottom-right aligned causal mask, as booleans."""
    import torch

    rows = torch.arange(seqlen_q).unsqueeze(1) + (seqlen_k - seqlen_q)
    return in_window(rows, torch.arange(seqlen_k), (None, 0))


def _keys(k: torch.Tensor, number: int, call: Call) -> torch.Tensor:
    used = None if call.seqused_k is None else int(call.seqused_k[number])
    if call.page_table is not None:
        assert used is not None
        pages = call.page_table[number].tolist()[: -(-used // k.shape[1])]
        return k[pages].flatten(0, 1)[:used]
    if call.cu_seqlens_k is not None:
        start, stop = call.cu_seqlens_k[number : number + 2].tolist()
        return k[start:stop][:used]
    return k[number][:used]


def _grouped(one: OneSequence) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, and k and v with a head for every query head."""
    group = one.q.shape[1] // max(1, one.k.shape[1])
    return one.q, one.k.repeat_interleave(group, 1), one.v.repeat_interleave(group, 1)


def _scores(products: torch.Tensor, one: OneSequence, call: Call) -> torch.Tensor:
    """Return the scores as the softmax sees them."""
    scores = Scores(products * scale_of(one.q, call.softmax_scale), one.number)
    if call.score_mod is not None:
        scores = scores.modified(call.score_mod, call.aux_tensors)
    if call.softcap:
        scores = scores.capped(call.softcap)
    mask = masks.full() if call.mask is None else masks.as_mask(call.mask)
    scores = scores.plus(scores.added_by(mask))
    for sides in _windows(call):
        hidden = ~in_window(scores.rows, scores.keys, sides)
        scores = Scores(scores.values.masked_fill(hidden, -math.inf), one.number)
    return scores.values


def _windows(call: Call) -> Iterator[tuple[int | None, int | None]]:
    if call.causal:
        yield None, 0
    if call.window_size is not None:
        left, right = (None if side in (None, -1) else side for side in call.window_size)
        yield left, right


def _with_sink(scores: torch.Tensor, call: Call) -> torch.Tensor:
    """Return the scores with a further column that holds the sink; never without any column."""
    import torch

    column = scores.new_full((*scores.shape[:2], 1), -math.inf)
    if call.sink is not None:
        column = column.copy_(call.sink.to(scores.dtype).view(-1, 1, 1).expand_as(column))
    return torch.cat([scores, column], dim=-1)
