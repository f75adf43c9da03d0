"""The arguments of a call as they were given: q, k and v, ``Options`` and ``Batch``.

The fields of the two records are the keyword arguments of :func:`fa4_cute.flash_attn` and
:func:`fa4_cute.flash_attn_varlen`, under the same names and with the same defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from .names import check_names

Inputs = tuple[Any, Any, Any]
PLAIN_ARGUMENTS: Final = ("causal", "softmax_scale", "return_lse")
"""Options that a plain call may give."""


@dataclass(frozen=True, eq=False)
class Options:
    """What is computed, and how; each as in the public functions."""

    causal: bool = False
    softmax_scale: float | None = None
    return_lse: bool = False
    mask: Any = None
    window_size: Any = None
    score_mod: Any = None
    softcap: float | None = None
    aux_tensors: Sequence[Any] = ()
    sink: Any = None
    num_splits: int | None = None
    split: str | None = None
    scheduler: str | None = None
    num_qo: int | None = None
    pair_cta: bool = False
    arch: str | None = None
    unchecked: bool = False
    q_scale: Any = None
    k_scale: Any = None
    v_scale: Any = None
    q_rope: Any = None
    k_rope: Any = None
    out: Any = None
    lse: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing is given that needs more than q, k and v.

        ``unchecked`` is about lengths and sinks, and a plain call has none.
        """
        has_defaults = all(getattr(self, name) is default for name, default in _APART)
        return has_defaults and isinstance(self.unchecked, bool)

    @property
    def rope(self) -> tuple[Any, Any] | None:
        """The rope columns of q and k, or None when there are none."""
        return None if self.q_rope is None and self.k_rope is None else (self.q_rope, self.k_rope)


_APART: Final = tuple(
    (field.name, field.default)
    for field in fields(Options)
    if field.name not in (*PLAIN_ARGUMENTS, "unchecked")
)


@dataclass(frozen=True, eq=False)
class Batch:
    """Where sequences lie; each as in the public functions."""

    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_k: Any = None
    page_table: Any = None
    max_seqlen_q: int | None = None
    max_seqlen_k: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether every sequence is an entry of dense tensors, as long as they are."""
        given = (self.cu_seqlens_q, self.cu_seqlens_k, self.seqused_k, self.page_table)
        return all(value is None for value in given)


_OF_BATCH: Final = frozenset(field.name for field in fields(Batch))
_ALL: Final = _OF_BATCH | {field.name for field in fields(Options)}


def options_and_batch(given: Mapping[str, Any]) -> tuple[Options, Batch]:
    """Sort the keyword arguments of a call by what they are about.

    Raises:
        TypeError: there is no such argument.
    """
    check_names(given, _ALL)
    rest = {name: value for name, value in given.items() if name not in _OF_BATCH}
    return Options(**rest), batch_of(given)


def batch_of(given: Mapping[str, Any]) -> Batch:
    """Return what the keyword arguments of a call say about its sequences."""
    return Batch(**{name: value for name, value in given.items() if name in _OF_BATCH})
