from __future__ import annotations

import re

import pytest

from fa4_cute.plan.config.depth512_config import DEPTHS, Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.spec.depth512_limits import MAX_DEPTH, unsupported_reason


@pytest.mark.parametrize(
    ("config", "pattern"),
    [
        (Depth512Config(8, 1, 520), r"depth=520 exceeds 512.*depth=512"),
        (Depth512Config(8, 1, 300), r"600 bytes.*depth=304"),
        (
            Depth512Config(
                8, 1, 256, SwizzleMode.B128, qkv_dtype=DType.FP8_E4M3, p_in_memory=True
            ),
            r"chunks of 128 elements.*swizzle_mode=B64",
        ),
        (Depth512Config(8, 1, 512, row_copies=2), r"row_copies=2: P in Tensor.*row_copies=1$"),
        (
            Depth512Config(8, 1, 256, p_in_memory=True, row_copies=2),
            r"row_copies=2: P in Tensor.*row_copies=1$",
        ),
        (
            Depth512Config(64, 64, 256, SwizzleMode.B64, qkv_dtype=DType.FP8_E4M3, row_copies=4),
            r"32 rows do not hold the 64 heads.*row_copies=1$",
        ),
    ],
)
def test_refusals_say_why_and_what_instead(config: Depth512Config, pattern: str) -> None:
    reason = unsupported_reason(config)
    assert reason is not None
    assert re.search(pattern, reason)


def test_the_deepest_plan_is_the_limit() -> None:
    assert DEPTHS[-1] == MAX_DEPTH
    assert unsupported_reason(Depth512Config(8, 1, MAX_DEPTH)) is None
