"""One table answers what runs: for the call, for questions without a device, and for texts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fa4_cute
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose import support
from fa4_cute.host.choose.kernels import KERNELS
from fa4_cute.host.choose.refusals import Refusal, device_refusal
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.numbers import MAX_SEQLEN
from fa4_cute.plan.spec import depth512_limits, limits

BASE = Problem("bf16", 1, 128, 128, 4, 2, 128, 128)


def problem(**changes: Any) -> Problem:
    return dataclasses.replace(BASE, **changes)


def refusal(**changes: Any) -> Refusal:
    result = choose(problem(**changes))
    assert isinstance(result, Refusal)
    return result


def fa4_config(**changes: Any) -> FA4Config:
    """Return the configuration of the kernel chosen, which is the one for small head dims."""
    found = choose(problem(**changes))
    assert isinstance(found, Choice)
    assert isinstance(found.spec.config, FA4Config)
    return found.spec.config


@pytest.mark.parametrize(
    ("head_dim", "kernel"),
    [(8, "SM100MHA2Q"), (192, "SM100MHA2Q"), (200, "SM100MHADepth512"), (512, "SM100MHADepth512")],
)
def test_head_dim_chooses_the_kernel(head_dim: int, kernel: str) -> None:
    assert fa4_cute.can_implement(head_dim=head_dim).kernel == kernel
    assert kernel in fa4_cute.explain(head_dim=head_dim)


@given(
    dtype=st.sampled_from(("bf16", "fp16")),
    head_dim=st.integers(1, 64).map(lambda n: 8 * n),
    group=st.integers(1, 130),
    causal=st.booleans(),
    lse=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_promised_problem_has_a_kernel(
    dtype: str, head_dim: int, group: int, causal: bool, lse: bool
) -> None:
    asked = problem(
        dtype=dtype, head_dim=head_dim, head_dim_v=head_dim, num_q_heads=2 * group,
        causal=causal, return_lse=lse,
    )  # fmt: skip
    result = choose(asked)
    assert isinstance(result, Choice)
    config = result.spec.config
    limits_of = limits if isinstance(config, FA4Config) else depth512_limits
    assert limits_of.supported(config)
    depth = config.qk_depth if isinstance(config, FA4Config) else config.depth
    assert (config.qkv_dtype.value, depth, config.group) == (dtype, head_dim, group)
    low, high = result.row.head_dims
    assert low <= head_dim <= high
    assert (result.spec.causal, result.spec.return_lse) == (causal, lse)


def test_sizes_and_scale_share_a_kernel() -> None:
    first = choose(problem())
    changed = problem(
        batch=2, seqlen_q=70, seqlen_k=77, num_q_heads=64, num_kv_heads=32, softmax_scale=3.0
    )
    second = choose(changed)
    assert isinstance(first, Choice)
    assert isinstance(second, Choice)
    assert first.spec == second.spec


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"dtype": "fp32"}, NotImplementedError, ("dtype fp32", "bf16")),
        ({"dtype": "float64"}, NotImplementedError, ("dtype float64", "bf16")),
        ({"dtype": "float8_e5m2"}, NotImplementedError, ("dtype float8_e5m2", "bf16")),
        ({"dtype": "int8"}, TypeError, ("dtype int8", "bf16")),
        ({"head_dim": 100}, NotImplementedError, ("head_dim=100", "head_dim=104", "1/sqrt(100)")),
        ({"head_dim": 1}, NotImplementedError, ("head_dim=1:", "head_dim=8")),
        ({"head_dim": 0}, NotImplementedError, ("head_dim=0:", "head_dim=8")),
        ({"num_kv_heads": 3}, ValueError, ("4 heads", "3 heads", "2 key/value heads")),
        ({"num_kv_heads": 0}, ValueError, ("4 heads", "0 heads", "1 key/value heads")),
        ({"seqlen_q": 2**31}, ValueError, ("seqlen_q=2147483648", str(MAX_SEQLEN))),
        ({"seqlen_k": 2**31}, ValueError, ("seqlen_k=2147483648", str(MAX_SEQLEN))),
        ({"batch": 70000}, NotImplementedError, ("batch=70000", "choice: batch=65535")),
        (
            {"batch": 10**6, "arch": "sm_90a", "causal": True, "seqlen_q": 1024},
            NotImplementedError,
            ("batch=1000000", "choice: batch=65535"),
        ),
        (
            {"num_q_heads": 140000, "num_kv_heads": 70000},
            NotImplementedError,
            ("heads_k=70000", "choice: heads_k=65535"),
        ),
        (
            {"num_q_heads": 70000, "num_kv_heads": 70000},
            NotImplementedError,
            ("heads_q=70000", "choice: heads_q=65535"),
        ),
    ],
)
def test_refusals(
    changes: dict[str, object], error: type[Exception], words: tuple[str, ...]
) -> None:
    if "head_dim" in changes:
        changes = {**changes, "head_dim_v": changes["head_dim"]}
    found = refusal(**changes)
    assert found.error is error
    for word in words:
        assert word in found.message


def test_head_dims_beyond_the_table() -> None:
    widest = max(row.head_dims[1] for row in KERNELS)
    found = refusal(head_dim=widest + 8, head_dim_v=widest + 8)
    assert found.error is NotImplementedError
    assert f"head_dim={widest + 8}" in found.reason
    assert found.nearest == f"head_dim={widest}"


def test_different_head_dim_of_v() -> None:
    config = fa4_config(head_dim=192, head_dim_v=128)
    assert (config.qk_depth, config.ov_depth) == (192, 128)
    refused = refusal(head_dim=256, head_dim_v=128)
    assert refused.error is NotImplementedError
    assert "head_dim_v=128" in refused.reason
    assert "256" in str(refused.nearest)
    narrow = refusal(head_dim=64, head_dim_v=128)
    assert narrow.error is NotImplementedError
    assert "head_dim=64 is smaller than head_dim_v=128" in narrow.reason
    assert narrow.nearest == "head_dim=head_dim_v=128"


def test_a_pair_of_ctas_on_request() -> None:
    found = choose(problem(head_dim=128, head_dim_v=128, pair_cta=True))
    assert isinstance(found, Choice)
    assert fa4_config(head_dim=128, head_dim_v=128, pair_cta=True).pair_cta
    assert found.spec.cluster_size == 2
    assert not fa4_config(head_dim=128, head_dim_v=128).pair_cta
    assert "pair_cta=False" in str(refusal(head_dim=64, head_dim_v=64, pair_cta=True).nearest)
    both = refusal(head_dim=128, head_dim_v=128, pair_cta=True, num_qo=1)
    assert "num_qo=1 has no two-CTA variant" in both.reason
    for more in ({}, {"scheduler": "dynamic"}, {"seqlen_q": 1}):
        reason = fa4_cute.can_implement(head_dim=128, pair_cta=True, **more).reason
        assert "as pair_cta=True asks for" in reason
        assert "num_qo" not in reason, "nobody asked for it"
    assert "pair_cta=True" in refusal(head_dim=512, head_dim_v=512, pair_cta=True).reason


def test_rope_columns_of_their_own_type() -> None:
    found = choose(problem(head_dim=192, head_dim_v=128, rope_dtype="fp16"))
    assert isinstance(found, Choice)
    assert fa4_config(head_dim=192, head_dim_v=128, rope_dtype="fp16").rope_apart
    assert found.spec.num_maps == 6


def test_the_nearest_head_dim_is_supported() -> None:
    for head_dim in range(1, 513):
        result = choose(problem(head_dim=head_dim, head_dim_v=head_dim))
        assert isinstance(result, Choice) is (head_dim % 8 == 0)


@pytest.mark.parametrize(
    ("kind", "capability", "name", "words"),
    [
        ("mps", None, None, ("device mps",)),
        ("meta", None, None, ("device meta",)),
        ("cuda", (8, 0), "NVIDIA A100", ("NVIDIA A100", "8.0", "tcgen05", "10.x", "wgmma", "9.0")),
        ("cuda", (12, 0), "GeForce RTX 5090", ("5090", "12.0", "10.x")),
        ("cuda", (11, 0), None, ("11.0",)),
        ("cuda", None, "AMD Instinct MI300X", ("MI300X", "no NVIDIA device")),
    ],
)
def test_devices_that_are_refused(
    kind: str, capability: tuple[int, int] | None, name: str | None, words: tuple[str, ...]
) -> None:
    found = device_refusal(kind, capability, name)
    assert found is not None
    assert found.error is NotImplementedError
    for word in (*words, "cpu"):
        assert word in found.message


@pytest.mark.parametrize(
    ("kind", "capability"), [("cpu", None), ("cuda", (10, 0)), ("cuda", (10, 3)), ("cuda", (9, 0))]
)
def test_devices_that_are_taken(kind: str, capability: tuple[int, int] | None) -> None:
    assert device_refusal(kind, capability) is None


def test_can_implement_by_sizes() -> None:
    yes = fa4_cute.can_implement(head_dim=128, heads_q=8, heads_k=2, dtype="bf16", causal=True)
    assert yes
    assert yes.kernel == "SM100MHA2Q"
    no = fa4_cute.can_implement(head_dim=128, heads_q=8, heads_k=3)
    assert not no
    assert "3 heads" in no.reason
    assert no.kernel is None


@pytest.mark.parametrize(
    "dtype", ["bf16", "bfloat16", "torch.bfloat16", torch.bfloat16, DType.BF16]
)
def test_can_implement_takes_any_spelling_of_a_dtype(dtype: object) -> None:
    assert fa4_cute.can_implement(head_dim=64, dtype=dtype)


def test_can_implement_with_a_device() -> None:
    ask = fa4_cute.can_implement
    assert ask(head_dim=64, device_type="cpu")
    assert ask(head_dim=64, device_type="cuda", compute_capability=(10, 0))
    hopper: dict[str, Any] = {"device_type": "cuda", "compute_capability": (9, 0)}
    assert ask(head_dim=64, **hopper).kernel == "SM90MHA"
    assert "9.0" in ask(head_dim=64, arch="sm_100a", **hopper).reason
    assert "arch='sm_90a'" in (ask(head_dim=64, arch="sm_100a", **hopper).nearest or "")
    assert "8.0" in ask(head_dim=64, device_type="cuda", compute_capability=(8, 0)).reason


def test_an_architecture_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="arch=90"):
        fa4_cute.can_implement(head_dim=64, arch=90)
    assert "sm_100a or sm_90a" in fa4_cute.can_implement(head_dim=64, arch="sm_80").reason


def test_can_implement_by_tensors() -> None:
    q = torch.zeros(1, 4, 2, 64, dtype=torch.float16)
    assert fa4_cute.can_implement(q, q, q, causal=True)
    assert "differs from q.dtype" in fa4_cute.can_implement(q, q, q.bfloat16()).reason
    meta = q.to("meta")
    assert "device meta" in fa4_cute.can_implement(meta, meta, meta).reason
    assert "expected a torch.Tensor" in fa4_cute.can_implement(q).reason


def test_can_implement_needs_a_question() -> None:
    with pytest.raises(TypeError, match="head_dim"):
        fa4_cute.can_implement()
    q = torch.zeros(1, 4, 2, 64)
    with pytest.raises(TypeError, match="either tensors or sizes"):
        fa4_cute.can_implement(q, q, q, head_dim=64)


def test_can_implement_answers_for_values_out_of_range() -> None:
    assert "finite" in fa4_cute.can_implement(head_dim=64, softmax_scale=float("nan")).reason
    assert "batch=-1" in fa4_cute.can_implement(head_dim=64, batch=-1).reason


def test_explain_names_kernel_config_and_schedule() -> None:
    sizes = {"head_dim": 128, "heads_q": 8, "heads_k": 2, "seqlen_q": 1024, "batch": 3}
    text = fa4_cute.explain(causal=True, num_qo=2, **sizes)
    for word in (
        "SM100MHA2Q",
        "causal",
        "group 4",
        "tile 256 x 128",
        "grid (2, 16, 3)",
        "softmax0",
    ):
        assert word in text
    assert fa4_cute.explain(head_dim=100).startswith("not supported: head_dim=100")
    assert "nearest supported choice" in fa4_cute.explain(head_dim=100)


def test_explain_says_how_many_query_tiles_and_why() -> None:
    decode = fa4_cute.explain(
        head_dim=128, heads_q=64, heads_k=8, seqlen_q=1, seqlen_k=9000, num_splits=1
    )
    assert "fa4_sm100_bf16_d128_g8_1q_x4" in decode
    what = "one Q tile per CTA, with 4 copies of its few rows"
    assert f"{what}: seqlen_q=1 fits one Q tile of 16 positions" in decode
    assert "tile 128 x 128" in decode
    prefill = fa4_cute.explain(head_dim=128, heads_q=64, heads_k=8, seqlen_q=4096)
    assert "two Q tiles per CTA: 1024 CTAs" in prefill
    assert "tile 256 x 128" in prefill
    assert "one Q tile per CTA" in fa4_cute.can_implement(head_dim=64, causal=True).reason
    predicted = fa4_cute.can_implement(
        head_dim=64, causal=True, heads_q=24, seqlen_q=1536, seqlen_k=1536
    )
    assert "with one Q tile per CTA: predicted" in predicted.reason
    short = fa4_cute.can_implement(head_dim=64).reason
    assert "fits one Q tile of 128 positions; predicted for a B200" in short
    assert "Q tile per CTA" not in fa4_cute.explain(head_dim=512)


@pytest.mark.parametrize(
    ("head_dim", "who"), [(128, "a CTA for every SM,"), (512, "a pair of CTAs for")]
)
def test_explain_says_who_walks_the_query_tiles(head_dim: int, who: str) -> None:
    sizes = {"head_dim": head_dim, "heads_q": 64, "seqlen_q": 4096, "batch": 3}
    text = fa4_cute.explain(scheduler="persistent", **sizes)
    assert f"persistent: {who}" in text
    assert "grid (148, 1, 1)" in text


def test_explain_says_that_query_tiles_are_taken_over() -> None:
    text = fa4_cute.explain(scheduler="dynamic", head_dim=128, heads_q=64, seqlen_q=4096, batch=3)
    assert "dynamic: a CTA for every query tile; one that runs takes over others" in text
    assert "grid (3072, 1, 1)" in text
    assert "warps 14-14 scheduler" in text


def test_a_number_of_query_tiles_can_be_asked_for() -> None:
    for num_qo in (1, 2):
        choice = choose(problem(num_qo=num_qo))
        assert isinstance(choice, Choice)
        assert isinstance(choice.spec.config, FA4Config)
        assert choice.spec.config.num_qo == num_qo
    with pytest.raises(ValueError, match="num_qo=3: choose 1 or 2"):
        problem(num_qo=3)


def test_explain_by_tensors_equals_explain_by_sizes() -> None:
    q = torch.zeros(2, 40, 4, 64, dtype=torch.float16)
    by_sizes = fa4_cute.explain(
        head_dim=64, heads_q=4, batch=2, seqlen_q=40, dtype="fp16", causal=True
    )
    assert fa4_cute.explain(q, q, q, causal=True) == by_sizes
    assert "nothing to launch" in fa4_cute.explain(q[:0], q[:0], q[:0])


def test_support_table_covers_every_kernel() -> None:
    rows = list(support.support_table())
    assert [row["kernel"] for row in rows] == [row.name for row in KERNELS]
    assert all(DType.BF16.value in row["dtypes"] for row in rows)
