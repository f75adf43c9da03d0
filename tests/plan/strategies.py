"""Random configurations, supported and not."""

from __future__ import annotations

from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.spec import depth512_limits
from fa4_cute.plan.spec.limits import supported

DTYPES = (DType.BF16, DType.FP16, DType.FP8_E4M3)
SWIZZLES = (SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128)
GROUPS = (1, 2, 3, 4, 5, 7, 8, 16, 64)
PAGES = (0, 16, 64, 96, 128, 256)


@st.composite
def any_configs(draw: st.DrawFn) -> FA4Config:
    """Any 2Q/1Q configuration that is a problem at all."""
    dtype = draw(st.sampled_from(DTYPES))
    depth = draw(st.integers(1, 34)) * 8
    mla = draw(st.booleans()) and draw(st.booleans())
    group = draw(st.sampled_from(GROUPS))
    num_qo = draw(st.sampled_from((1, 2)))
    pair = draw(st.booleans()) and draw(st.booleans())
    scales = (DType.INVALID, DType.FP32) if mla or pair else (DType.INVALID,)
    persistent = draw(st.booleans()) and draw(st.booleans())
    return FA4Config(
        num_q_heads=group * draw(st.integers(1, 4)),
        group=group,
        qk_depth=depth + (64 if mla else 0),
        ov_depth=depth,
        swizzle_mode=draw(st.sampled_from(SWIZZLES)),
        page_size=draw(st.sampled_from(PAGES)),
        is_mla=mla,
        pair_cta=pair,
        num_qo=num_qo,
        qkv_dtype=dtype,
        rope_dtype=draw(st.sampled_from((DType.BF16, DType.FP8_E4M3))) if mla else DType.INVALID,
        scale_dtype=draw(st.sampled_from(scales)),
        shared_rope=mla and draw(st.booleans()),
        two_rings=draw(st.booleans()),
        splitk_partitions=1 if num_qo > 1 or persistent else draw(st.sampled_from((1, 1, 2, 3, 8))),
        row_copies=1 if num_qo > 1 else draw(st.sampled_from((1, 1, 2, 4))),
        persistent=persistent,
        dynamic=persistent and draw(st.booleans()),
        writes_rows=persistent and not pair and draw(st.booleans()),
    )


def configs() -> st.SearchStrategy[FA4Config]:
    """Supported 2Q/1Q configurations."""
    return any_configs().filter(supported)


@st.composite
def any_depth512_configs(draw: st.DrawFn) -> Depth512Config:
    """Any CTA-pair configuration that is a problem at all."""
    group = draw(st.sampled_from(GROUPS))
    persistent = draw(st.booleans())
    return Depth512Config(
        num_q_heads=group * draw(st.integers(1, 4)),
        group=group,
        depth=draw(st.integers(1, 65)) * 8,
        swizzle_mode=draw(st.sampled_from(SWIZZLES)),
        page_size=draw(st.sampled_from(PAGES)),
        qkv_dtype=draw(st.sampled_from(DTYPES)),
        scale_dtype=draw(st.sampled_from((DType.INVALID, DType.FP32))),
        persistent=persistent,
        dynamic=persistent and draw(st.booleans()),
    )


def depth512_configs() -> st.SearchStrategy[Depth512Config]:
    """Supported CTA-pair configurations."""
    return any_depth512_configs().filter(depth512_limits.supported)
