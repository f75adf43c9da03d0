"""Functions of scores as FlashAttention-4 takes them: traced, on vectors of one or two scores."""

from __future__ import annotations

from typing import Any

import cutlass
from cutlass import cute


def alibi_of(heads: int) -> Any:
    """Return the package's kind of function that takes a head's slope times the distance."""

    def alibi(
        score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, seqlen_info: Any,
        aux_tensors: Any,
    ) -> Any:  # fmt: skip
        exponent = (head + 1).to(cutlass.Float32) * (-8.0 / heads)
        distance = (q_idx - kv_idx).to(cutlass.Float32)
        distance = cute.where(distance < 0.0, -distance, distance)
        return score - cute.math.exp2(exponent, fastmath=True) * distance

    return alibi


def add_bias(
    score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, seqlen_info: Any,
    aux_tensors: Any,
) -> Any:  # fmt: skip
    """Read one bf16 bias of the shared (1, heads, queries, keys)."""
    bias = aux_tensors[0]
    value = cute.make_rmem_tensor(1, bias.element_type)
    value[0] = bias[0, head[0], q_idx[0], kv_idx[0]]
    return score + value.load().to(cutlass.Float32)
