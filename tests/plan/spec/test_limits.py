from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import TMA_ALIGN, SwizzleMode, align_up
from fa4_cute.plan.spec.limits import supported, unsupported_reason
from tests.plan.strategies import any_configs


@pytest.mark.parametrize(
    ("config", "pattern"),
    [
        (FA4Config(8, 1, 256, 256), r"BN=0 keys.*Depth512Config.*qk_depth=ov_depth=192"),
        (FA4Config(8, 1, 64, 64, pair_cta=True), r"64 < qk_depth <= 128, not 64.*pair_cta=False"),
        (FA4Config(8, 1, 128, 128, pair_cta=True, num_qo=1), r"no two-CTA variant"),
        (FA4Config(8, 1, 68, 68), r"136 bytes.*multiples of 16.*qk_depth=ov_depth=72"),
        (FA4Config(8, 1, 64, 128), r"qk_depth=64 is smaller than ov_depth=128"),
        (FA4Config(8, 1, 192, 128), r"rope_dtype is 'invalid'"),
        (FA4Config(8, 1, 128, 128, num_qo=1, splitk_partitions=9), r"at most 8.*_partitions=8$"),
        (FA4Config(8, 1, 128, 128, splitk_partitions=2), r"a single Q tile.*choice: num_qo=1$"),
        (
            FA4Config(8, 1, 128, 128, num_qo=1, splitk_partitions=2, persistent=True),
            r"persistent=True: the CTAs of a cluster leave together",
        ),
        (FA4Config(8, 1, 128, 128, row_copies=4), r"a single Q tile of one CTA.*row_copies=1$"),
        (FA4Config(8, 1, 64, 64, num_qo=1, row_copies=4, bn_cap=64), r"tiles of 64 keys do not"),
        (FA4Config(64, 64, 64, 64, num_qo=1, row_copies=4), r"32 rows do not hold the 64 heads"),
        (
            FA4Config(8, 1, 64, 64, shared_rope=True),
            r"no rope columns; nearest supported choice: shared_rope=False$",
        ),
        (
            FA4Config(8, 1, 64, 128, shared_rope=True),
            r"choice: qk_depth=ov_depth=128, shared_rope=False$",
        ),
        (
            FA4Config.for_attention(DType.BF16, 144, ov_depth=32, rope_dtype=DType.FP16),
            r"ov_depth=32: rope columns .* whole chunk of 64 columns; .* choice: ov_depth=64$",
        ),
        (
            FA4Config.for_attention(DType.BF16, 176, ov_depth=32),
            r"^num_qo=2: shared memory holds 1 K/V stage\(s\) of 176/32 columns.*: num_qo=1$",
        ),
        (
            FA4Config.for_attention(DType.BF16, 256, ov_depth=192, pair_cta=True),
            r"serves ov_depth <= 128, not 192.*choice: pair_cta=False",
        ),
        (
            FA4Config.for_attention(DType.BF16, 320, ov_depth=128, pair_cta=True),
            r"shared memory holds 1 K/V stage\(s\)",
        ),
        (
            FA4Config(8, 1, 80, 80, SwizzleMode.B32, pair_cta=True),
            r"pads ov_depth=80 to 80: an MMA of two CTAs has columns in steps of 32",
        ),
        (
            FA4Config(8, 1, 96, 96, SwizzleMode.B32, pair_cta=True, qkv_dtype=DType.FP8_E4M3),
            r"48 columns of V to a CTA, which is no whole chunk of any swizzle",
        ),
    ],
)
def test_refusals_say_why_and_what_instead(config: FA4Config, pattern: str) -> None:
    reason = unsupported_reason(config)
    assert reason is not None
    assert re.search(pattern, reason)


@settings(deadline=None)
@given(any_configs())
def test_the_named_alternative_is_supported(config: FA4Config) -> None:
    reason = unsupported_reason(config)
    if reason is None or "nearest supported choice: " not in reason:
        return
    choice = reason.split("nearest supported choice: ")[1]
    changes: dict[str, Any] = {"row_copies": 1}
    for name, value in re.findall(r"(num_qo|pair_cta)=(\w+)", choice):
        changes[name] = (
            {"True": True, "False": False}.get(value) if name == "pair_cta" else int(value)
        )
    if depth := re.search(r"qk_depth=ov_depth=(\d+)", choice):
        changes |= {"qk_depth": int(depth[1]), "ov_depth": int(depth[1]), "pair_cta": False}
    elif depth := re.search(r"ov_depth=(\d+)", choice):
        changes["ov_depth"] = int(depth[1])
        if not supported(replace(config, **changes)):
            changes["num_qo"] = 1
    if "shared_rope=False" in choice:
        changes["shared_rope"] = False
    if choice.endswith("in bf16"):
        changes |= {"qkv_dtype": DType.BF16, "swizzle_mode": SwizzleMode.B128}
    assert supported(replace(config, **changes))


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16, DType.FP8_E4M3])
@pytest.mark.parametrize("depth", [*range(8, 136, 8), 192])
@pytest.mark.parametrize("num_qo", [1, 2])
def test_the_promised_head_dims_run(dtype: DType, depth: int, num_qo: int) -> None:
    depth = align_up(depth, TMA_ALIGN // dtype.size)
    for group in (1, 2, 4, 8, 6, 64):
        config = FA4Config.for_attention(dtype, depth, group=group, num_qo=num_qo)
        assert unsupported_reason(config) is None


@pytest.mark.parametrize("scale_dtype", [DType.INVALID, DType.FP32])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize(("qk_depth", "ov_depth"), [(128, 64), (192, 64), (192, 128), (256, 128)])
@pytest.mark.parametrize("rope_dtype", [DType.BF16, DType.FP8_E4M3])
def test_a_pair_serves_rope_columns_and_scales(
    dtype: DType, rope_dtype: DType, qk_depth: int, ov_depth: int, scale_dtype: DType
) -> None:
    config = FA4Config.for_attention(
        dtype, qk_depth, ov_depth=ov_depth, rope_dtype=rope_dtype, pair_cta=True
    )
    assert unsupported_reason(replace(config, scale_dtype=scale_dtype)) is None


def test_a_cluster_whose_results_do_not_fit_is_refused() -> None:
    """With a narrow swizzle the barriers of many depth parts leave few slots."""
    config = FA4Config(
        1, 1, 176, 176, SwizzleMode.B32,
        num_qo=1, qkv_dtype=DType.FP8_E4M3, splitk_partitions=2,
    )  # fmt: skip
    reason = unsupported_reason(config)
    assert reason is not None
    assert "partial results of 123904 bytes exceed the 98304 bytes" in reason
    assert supported(replace(config, splitk_partitions=1))
