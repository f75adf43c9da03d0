"""A call that goes through the operator: arguments checked and passed, results handed back."""

from __future__ import annotations

from typing import Any

import torch

from ... import score_mods
from ..ask.architecture import check_arch
from ..ask.arguments import Batch, Inputs, Options
from ..ask.checks import check_flag, check_scale
from ..ask.outputs import wanted_lse, wanted_out
from ..ask.request import scheduler_of, split_of
from ..ask.score_changes import window_of
from .carry import packed
from .define import ATTENTION, ATTENTION_INTO
from .fitting import check_fits
from .observed import is_traced


def call(inputs: Inputs, options: Options, batch: Batch) -> tuple[Any, Any]:
    """Return O, and LSE or None, as the operator computes them; errors as ``compute``."""
    if is_traced() and _is_function(options.score_mod):
        from .apart import compute_apart

        apart: tuple[Any, Any] = compute_apart(inputs, options, batch)
        return apart
    _check_kinds(options)
    values = packed(inputs, options, batch)
    if not is_traced():
        check_fits(values | {"out": options.out, "lse": options.lse})
    args = values.values()
    if options.out is None and options.lse is None:
        out, lse = ATTENTION(*args)
        return out, lse if options.return_lse else None
    out, lse = _written(inputs, options)
    ATTENTION_INTO(out, lse, *args)
    return out, lse


def _written(inputs: Inputs, options: Options) -> tuple[Any, Any]:
    """Return the tensors that are written: those that are given, and new ones."""
    (q, _, v), out, lse = inputs, options.out, options.lse
    if out is None:
        wanted = wanted_out(q, v.shape[-1])
        out = q.new_empty(wanted.shape, dtype=getattr(torch, wanted.dtype))
    if lse is None and options.return_lse:
        lse = q.new_empty(wanted_lse(q).shape, dtype=torch.float32)
    return out, lse


def _is_function(score_mod: Any) -> bool:
    return score_mod is not None and not isinstance(score_mod, score_mods.ScoreModifier)


def _check_kinds(options: Options) -> None:
    """Refuse what would not fit the operator's schema, by the sentences of a plain call."""
    for name in ("causal", "return_lse", "pair_cta", "unchecked"):
        check_flag(name, getattr(options, name))
    if not is_traced():  # a traced number may have no value yet
        check_scale(options.softmax_scale)
    window_of(options.window_size)
    split_of(options.split, options.num_splits)
    scheduler_of(options.scheduler)
    check_arch(options.arch)
