"""Keyword arguments of the public functions: their names, types and defaults.

Defaults are those of the records ``Options`` and ``Batch``; the types are for whoever reads or
checks a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, ForwardRef, TypedDict, TypeVar

from .arguments import Batch, Options
from .names import check_names

if TYPE_CHECKING:
    import torch

    from ...masks import AttentionMask


class AttentionOptions(TypedDict, total=False):
    """What both public functions take besides ``return_lse``."""

    causal: bool
    softmax_scale: float | None
    mask: AttentionMask | None
    window_size: tuple[int | None, int | None] | None
    score_mod: Any
    softcap: float | None
    aux_tensors: Sequence[torch.Tensor]
    sink: torch.Tensor | None
    num_splits: int | None
    split: str | None
    scheduler: str | None
    num_qo: int | None
    pair_cta: bool
    arch: str | None
    unchecked: bool
    q_scale: float | torch.Tensor | None
    k_scale: float | torch.Tensor | None
    v_scale: float | torch.Tensor | None
    q_rope: torch.Tensor | None
    k_rope: torch.Tensor | None
    out: torch.Tensor | None
    lse: torch.Tensor | None
    seqused_k: torch.Tensor | None
    page_table: torch.Tensor | None


class VarlenOptions(AttentionOptions, total=False):
    """What the call for packed queries takes besides."""

    cu_seqlens_k: torch.Tensor | None
    max_seqlen_q: int | None
    max_seqlen_k: int | None


_Function = TypeVar("_Function", bound=Callable[..., Any])
_INPUTS: Final = ("q", "k", "v")
_TYPES: Final = {"return_lse": "bool", **VarlenOptions.__annotations__}
_DEFAULTS: Final[dict[str, Any]] = {
    **{field.name: field.default for field in (*fields(Options), *fields(Batch))},
    "cu_seqlens_q": inspect.Parameter.empty,
}
Names = frozenset[str]
OF_DENSE: Final[Names] = frozenset((*AttentionOptions.__annotations__, "return_lse"))
"""Names of the keyword arguments of ``flash_attn``."""
OF_VARLEN: Final[Names] = frozenset(_DEFAULTS)
"""Names of the keyword arguments of ``flash_attn_varlen``."""


def check_keywords(given: Mapping[str, Any], names: Names) -> None:
    """Refuse arguments that do not exist, and packed queries without their offsets.

    Raises:
        TypeError: naming the argument.
    """
    check_names(given, names)
    if names is OF_VARLEN and given.get("cu_seqlens_q") is None:
        raise TypeError(
            "cu_seqlens_q=None: expected a tensor; nearest supported choice: "
            "fa4_cute.flash_attn for a dense batch of queries"
        )


def described(names: Names) -> Callable[[_Function], _Function]:
    """Return the decorator that lists q, k, v and the arguments ``names`` in the signature.

    ``help``, ``inspect.signature`` and editors then show every name with its default.
    """

    def decorate(function: _Function) -> _Function:
        parameter = inspect.Parameter
        by_place = [parameter(n, parameter.POSITIONAL_OR_KEYWORD, annotation="torch.Tensor")
                    for n in _INPUTS]  # fmt: skip
        by_name = [
            parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=_type_of(name))
            for name, default in _DEFAULTS.items()
            if name in names
        ]
        returns = "torch.Tensor | tuple[torch.Tensor, torch.Tensor]"
        signature = inspect.Signature([*by_place, *by_name], return_annotation=returns)
        function.__signature__ = signature  # type: ignore[attr-defined]  # PEP 362; typeshed lacks it
        return function

    return decorate


def _type_of(name: str) -> str:
    kind = _TYPES.get(name, "torch.Tensor")
    return kind.__forward_arg__ if isinstance(kind, ForwardRef) else str(kind)
