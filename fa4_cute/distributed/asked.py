"""What a rank was asked for, checked: ``Asked`` and the description that the ranks compare."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ..host.ask.arguments import Inputs, Options
from ..host.ask.checks import DENSE, PACKED, check_inputs, kind_of
from ..host.ask.names import check_names
from ..host.ask.request import request
from ..host.ask.score_changes import full_mask
from ..host.choose.support import choose, require
from ..host.run import device
from ..plan.masks.masks import CAUSAL, NullMask, SlidingWindowMask, terms
from ..plan.ranks.band import Band
from ..plan.ranks.shards import Layout
from .agree import Description

if TYPE_CHECKING:
    import torch

    from ..masks import AttentionMask

METHODS: Final = ("ring", "all_gather")
_NO_POSITIONS: Final = "a rank does not know the whole sequence's positions in it"
_REFUSED: Final = {
    "score_mod": f"{_NO_POSITIONS}; nearest supported choice: softcap",
    "aux_tensors": f"{_NO_POSITIONS}; nearest supported choice: softcap",
    "seqused_k": "keys are cut by their lengths; nearest supported choice: k and v without the "
    "unused rows, or context_parallel_attn_varlen",
    "page_table": "pages are not dealt out to ranks; nearest supported choice: fa4_cute.flash_attn "
    "on the rank that holds the cache",
    **dict.fromkeys(
        ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"),
        "nearest supported choice: context_parallel_attn_varlen, with offsets of whole sequences",
    ),
    **dict.fromkeys(
        ("out", "lse"), "several calls are joined; nearest supported choice: leave it out"
    ),
    "q_rope": "rope columns travel with k; nearest supported choice: torch.cat((q, q_rope), -1)",
    "k_rope": "rope columns travel with k; nearest supported choice: torch.cat((k, k_rope), -1)",
}
"""Arguments of ``flash_attn`` that have no meaning here, and what to do instead."""


class ContextOptions(TypedDict, total=False):
    """Options of attention over ranks besides ``return_lse``."""

    causal: bool
    softmax_scale: float | None
    mask: AttentionMask | None
    window_size: tuple[int | None, int | None] | None
    softcap: float | None
    sink: torch.Tensor | None
    q_scale: float | None
    k_scale: float | None
    v_scale: float | None
    unchecked: bool


_OPTIONS: Final = ("return_lse", *ContextOptions.__annotations__)


@dataclass(frozen=True, eq=False)
class Asked:
    """The arguments of a call on one rank.

    Attributes:
        inputs: q, k and v.
        options: as for :func:`fa4_cute.flash_attn`; the mask is not looked at after the check.
        method, layout: by name.
        others: further keyword arguments, which are refused.
        cu_seqlens: offsets of the whole sequences of q and of k, or None for a dense batch.
    """

    inputs: Inputs
    options: Options
    method: Any
    layout: Any
    others: Mapping[str, Any]
    cu_seqlens: tuple[Any, Any] | None = None

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        given: Mapping[str, Any],
        method: Any,
        layout: Any,
        cu_seqlens: tuple[Any, Any] | None = None,
    ) -> Asked:
        """Return the call with the keyword arguments ``given``; nothing is checked yet."""
        options = Options(**{name: x for name, x in given.items() if name in _OPTIONS})
        others = {name: x for name, x in given.items() if name not in _OPTIONS}
        return cls(inputs, options, method, layout, others, cu_seqlens)

    def description(self) -> Description:
        """Return what the ranks compare, with everything checked that one rank can.

        Raises:
            TypeError, ValueError, NotImplementedError: an argument is wrong; names it.
        """
        check_others(self.others)
        layout = one_of("layout", self.layout, tuple(x.value for x in Layout))
        of_rows = DENSE if self.cu_seqlens is None else PACKED
        check_inputs(self.inputs, self.options, (of_rows, of_rows))
        q, k, v = self.inputs
        band = band_of(self.options)
        check_scales(self.options)
        self._check_kernel()
        lengths = None
        if self.cu_seqlens is not None:
            of_q, of_k = map(whole_lengths, ("cu_seqlens_q", "cu_seqlens_k"), self.cu_seqlens)
            if len(of_q) != len(of_k):
                raise ValueError(
                    f"cu_seqlens_k: {len(of_k)} sequences, and cu_seqlens_q has {len(of_q)}"
                )
            lengths = of_q, of_k
        return Description(
            rows=(q.shape[-3], k.shape[-3]),
            lengths=lengths,
            layout=Layout(layout),
            band=band,
            settings=(
                ("method", one_of("method", self.method, METHODS)),
                ("element type of q", str(q.dtype)),
                ("device type of q", q.device.type),
                *(
                    (f"shape of {name} without its rows", (*x.shape[:-3], *x.shape[-2:]))
                    for name, x in zip("qkv", (q, k, v), strict=True)
                ),
                ("sink is given", self.options.sink is not None),
                *((n, getattr(self.options, n)) for n in _COMPARED),
            ),
        )

    def _check_kernel(self) -> None:
        """Refuse what no kernel computes, before any rank waits for this one."""
        dense = self.inputs
        if self.cu_seqlens is not None:
            q, k, v = self.inputs
            dense = q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0)
        require(choose(request(dense, replace(self.options, return_lse=True)).problem))
        require(device.refusal_of(self.inputs[0]))


_COMPARED: Final = ("softmax_scale", "softcap", "q_scale", "k_scale", "v_scale", "unchecked")


def check_others(others: Mapping[str, Any]) -> None:
    """Refuse keyword arguments that only a single device's attention has, or nothing.

    Raises:
        NotImplementedError: names the first of ``flash_attn``, and why.
        TypeError: there is no such argument anywhere.
    """
    for name in others:
        if name in _REFUSED:
            raise NotImplementedError(f"{name}: {_REFUSED[name]}")
        if name in {field.name for field in fields(Options)}:
            raise NotImplementedError(
                f"{name}: every call on a rank chooses it by its own sizes; nearest supported "
                f"choice: leave it out"
            )
        check_names((name,), (*_OPTIONS, "method", "layout", "group"))


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    """Return ``value``, one of the names ``known``.

    Raises:
        TypeError, ValueError: it is no string, or none of them.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}={kind_of(value)}: expected one of {', '.join(known)}")
    if value not in known:
        raise ValueError(f"{name}={value!r}: nearest supported choice: {' or '.join(known)}")
    return value


def band_of(options: Options) -> Band:
    """Return ``causal``, ``window_size`` and ``mask`` together as a band.

    Raises:
        NotImplementedError: they are more than a window.
    """
    plan = full_mask(options).plan
    plan = plan & CAUSAL if options.causal else plan
    found = terms(plan)
    leaves = [leaf for term in found for leaf in term.leaves]
    if len(found) != 1 or not all(isinstance(x, SlidingWindowMask | NullMask) for x in leaves):
        raise NotImplementedError(
            f"mask={plan.name}: only masks that are one window around a row's own key are dealt "
            f"out to ranks; nearest supported choice: causal=True, window_size=(left, right), or "
            f"fa4_cute.masks.sliding_window"
        )
    windows = [leaf for leaf in leaves if isinstance(leaf, SlidingWindowMask)]
    left = min((x.left for x in windows if x.left is not None), default=None)
    right = min((x.right for x in windows if x.right is not None), default=None)
    return Band(left, right)


def check_scales(options: Options) -> None:
    """Refuse scales of fp8 operands other than numbers.

    Raises:
        NotImplementedError: names the scale.
    """
    for name in ("q_scale", "k_scale", "v_scale"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, numbers.Real):
            raise NotImplementedError(
                f"{name}={kind_of(value)}: scales do not travel with k and v; nearest supported "
                f"choice: a number for the whole tensor, the same on all ranks"
            )


def whole_lengths(name: str, value: Any) -> tuple[int, ...]:
    """Return the lengths of the sequences with the offsets ``value``.

    Raises:
        TypeError: it is neither an integer tensor nor a sequence of integers.
        ValueError: it does not start with 0, or decreases.
    """
    values = value.tolist() if hasattr(value, "tolist") else value
    integers = isinstance(values, list | tuple) and all(
        isinstance(x, int) and not isinstance(x, bool) for x in values
    )
    if not integers:
        raise TypeError(
            f"{name}={kind_of(value)}: expected (batch + 1,) integers, a tensor or a list: the "
            f"first row of every whole sequence, and the end"
        )
    starts = tuple(values)
    if not starts or starts[0] != 0:
        raise ValueError(f"{name}: starts with {starts[:1]}; expected 0")
    lengths = tuple(b - a for a, b in pairwise(starts))
    for number, length in enumerate(lengths):
        if length < 0:
            raise ValueError(f"{name}: sequence {number} has {length} rows; offsets never decrease")
    return lengths
