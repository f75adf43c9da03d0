"""Results that a caller gives lie apart from what is read, in every repeated call."""

from __future__ import annotations

import pytest
import torch

import fa4_cute
from fa4_cute.host.run import calls
from testing.launches import no_launch


def test_a_result_that_moves_over_an_operand_is_refused_again() -> None:
    memory = torch.zeros(5, 1, 32, 2, 64, dtype=torch.bfloat16)
    q, k, v, out, other = memory
    with no_launch():
        for _ in range(3):
            assert fa4_cute.flash_attn(q, k, v, out=out) is out
        assert fa4_cute.flash_attn(q, k, v, out=other) is other
        assert len(calls.kept) == 1
        for wrong in (q, k, v):
            with pytest.raises(ValueError, match="out"):
                fa4_cute.flash_attn(q, k, v, out=wrong)
        assert fa4_cute.flash_attn(q, k, v, out=out) is out
        with pytest.raises(ValueError, match="out"):
            fa4_cute.flash_attn(q, out, v, out=out)
