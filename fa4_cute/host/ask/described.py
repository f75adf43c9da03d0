"""A problem without tensors, in plain numbers, as questions describe it."""

from __future__ import annotations

import inspect
from typing import Any

from ...plan.facts.dtypes import DType
from .architecture import arch_for, check_arch
from .arguments import Options
from .checks import check_count, check_flag
from .features import Features
from .problem import Problem, dtype_name
from .request import scheduler_of, split_of
from .score_changes import full_mask, modifier_of, readable_bias, stored_mask


def described(
    *,
    head_dim: int | None = None,
    head_dim_v: int | None = None,
    heads_q: int = 1,
    heads_k: int | None = None,
    dtype: Any = "bf16",
    batch: int = 1,
    seqlen_q: int = 1,
    seqlen_k: int | None = None,
    total_q: int = 0,
    causal: bool = False,
    softmax_scale: float | None = None,
    return_lse: bool = False,
    num_qo: int | None = None,
    rope_dtype: Any = None,
    shared_rope: bool = False,
    pair_cta: bool = False,
    arch: str | None = None,
    compute_capability: tuple[int, int] | None = None,
    **features: Any,
) -> Problem:
    """Return the problem of these sizes and options: those of ``fa4_cute.can_implement``.

    Raises:
        TypeError: no ``head_dim``, or an option of the wrong type.
        ValueError: an option of the wrong value.
    """
    if head_dim is None:
        raise TypeError("head_dim: give tensors q, k and v, or at least head_dim")
    check_arch(arch)
    _check_total_q(total_q, features.get("ragged_q"), batch=batch, seqlen_q=seqlen_q)
    element = dtype_name(dtype)
    _check_scales(features.get("token_scales"), element)
    return Problem(
        dtype=element,
        batch=batch,
        seqlen_q=seqlen_q,
        seqlen_k=seqlen_q if seqlen_k is None else seqlen_k,
        num_q_heads=heads_q,
        num_kv_heads=heads_q if heads_k is None else heads_k,
        head_dim=head_dim,
        head_dim_v=head_dim if head_dim_v is None else head_dim_v,
        causal=causal,
        softmax_scale=softmax_scale,
        return_lse=return_lse,
        features=_features(**features),
        num_qo=num_qo,
        rope_dtype=None if rope_dtype is None else dtype_name(rope_dtype),
        shared_rope=shared_rope,
        pair_cta=pair_cta,
        arch=arch_for(arch, compute_capability),
        total_q=total_q,
    )


def _check_scales(token_scales: Any, dtype: str) -> None:
    """Refuse scales of operands that have none, as a call does.

    Raises:
        ValueError: names the type that has them.
    """
    scaled = DType.FP8_E4M3.value
    if token_scales is True and dtype != scaled:
        raise ValueError(
            f"token_scales: only operands of {scaled} have scales, not {dtype}; nearest supported "
            f"choice: dtype={scaled!r}"
        )


def _check_total_q(total_q: Any, ragged_q: Any, *, batch: Any, seqlen_q: Any) -> None:
    """Refuse rows that packed sequences of such lengths cannot have.

    Raises:
        TypeError: no integer.
        ValueError: queries are not packed, or there are fewer or more rows than they may have.
    """
    check_count("total_q", total_q, 0)
    if not total_q:
        return
    if not ragged_q:
        raise ValueError(
            f"total_q={total_q}: only packed queries have lengths of their own; nearest supported "
            "choice: ragged_q=True"
        )
    if type(batch) is int and type(seqlen_q) is int and not total_q <= batch * seqlen_q:
        raise ValueError(
            f"total_q={total_q}: {batch} sequences of at most {seqlen_q} queries have fewer; "
            f"nearest supported choice: total_q={batch * seqlen_q}"
        )


def _features(
    *,
    mask: Any = None,
    window_size: Any = None,
    score_mod: Any = None,
    softcap: float | None = None,
    aux_tensors: Any = (),
    sink: bool = False,
    ragged_q: bool = False,
    ragged_k: bool = False,
    used_k: bool = False,
    page_size: int = 0,
    num_splits: int | None = None,
    split: str | None = None,
    scheduler: str | None = None,
    token_scales: bool = False,
) -> Features:
    given = Options(
        mask=mask,
        window_size=window_size,
        score_mod=score_mod,
        softcap=softcap,
        aux_tensors=aux_tensors,
    )
    flags = {
        "sink": sink, "ragged_q": ragged_q, "ragged_k": ragged_k, "used_k": used_k,
        "token_scales": token_scales,
    }  # fmt: skip
    for name, flag in flags.items():
        check_flag(name, flag)
    check_count("page_size", page_size, 0)
    if num_splits is not None:
        check_count("num_splits", num_splits, 1)
    mask, modifier = full_mask(given), modifier_of(given)
    return Features(
        mask=stored_mask(mask, map(readable_bias, mask.biases)),
        score_mod=None if modifier is None else modifier.plan,
        sink=sink,
        ragged_q=ragged_q,
        ragged_k=ragged_k,
        used_k=used_k or bool(page_size),
        page_size=page_size,
        num_splits=num_splits,
        split=split_of(split, num_splits),
        scheduler=scheduler_of(scheduler),
        token_scales=token_scales,
    )


DESCRIPTION = frozenset(
    name
    for function in (described, _features)
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
)
"""Names of the options of a problem without tensors."""
