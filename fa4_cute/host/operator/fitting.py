"""What does not fit the operator's schema is refused in a sentence, ahead of the dispatcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from ...plan.facts.numbers import MAX_SEQLEN
from ...plan.spec.combine_spec import MAX_SPLITS
from ..ask.checks import check_count, check_kind
from .schema import ARGUMENTS, TENSORS

_MOST: Final = {
    "num_splits": MAX_SPLITS, "num_qo": 2, "max_seqlen_q": MAX_SEQLEN, "max_seqlen_k": MAX_SEQLEN,
}  # fmt: skip
"""The largest value of each integer."""
_TOO_LARGE: Final = 1 << 63
"""What the dispatcher has no number for; less is refused where all calls are."""
_LEAST: Final = {"num_splits": 1, "num_qo": 1, "max_seqlen_q": 0, "max_seqlen_k": 0}
_NAMES: Final = {"mask_lengths": "padding lengths", "mask_biases": "bias"}


def check_fits(values: Mapping[str, Any]) -> None:
    """Refuse tensors and integers that are none.

    Args:
        values: the operator's arguments by name, ``out`` and ``lse`` among them.

    Raises:
        TypeError: one of them has another type.
        NotImplementedError: a tensor is nested.
        ValueError: an integer is less than the least, or more than any kernel takes.
    """
    for name, value in values.items():
        kind = ARGUMENTS[name][0] if name in ARGUMENTS else "Tensor?"
        if kind == TENSORS:
            for i, tensor in enumerate(value):
                check_kind(_NAMES.get(name, f"{name}[{i}]"), tensor)
        elif kind == "Tensor" or (kind == "Tensor?" and value is not None):
            check_kind(name, value)
        elif name in _MOST and value is not None and not isinstance(value, torch.SymInt):
            check_count(name, value, _LEAST[name])
            if value >= _TOO_LARGE:
                raise ValueError(
                    f"{name}={value}: more than any kernel takes; nearest supported choice: "
                    f"{_MOST[name]}"
                )
