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
            Depth512Config(8, 1, 256, SwizzleMode.B128, qkv_dtype=DType.FP8_E4M3),
            r"chunks of 128 elements.*swizzle_mode=B64",
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
