"""Keys split over a cluster, against float64, against the workspace, and against themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import fa4_cute
from fa4_cute import masks
from testing.arguments import FEATURES, ints
from testing.cases import FP16, Case, is_possible
from testing.reference.attention import compare
from testing.reference.fp8 import compare_fp8
from testing.runner import check, launches
from tests.kernel.numerics.split_inputs import dense
from tests.kernel.random_cases import also, searched

pytestmark = pytest.mark.slow



def in_cluster(
    size: int, queries: int, keys: int, head_dim: int, heads: int = 1, kv_heads: int = 1,
    *features: str, **more: Any,
) -> Case:  # fmt: skip
    return Case(
        frozenset({"cluster", *features}), head_dim, heads=heads, kv_heads=kv_heads,
        lengths=((queries, keys),), num_qo=1, num_splits=size, **more,
    )  # fmt: skip


CASES = [
    in_cluster(4, 40, 700, 128, 4, 2, "causal"),
    in_cluster(8, 1, 1, 64),
]
MORE = [
    in_cluster(6, 20, 333, 192, 2, 1, dtype=FP16),
    in_cluster(2, 300, 500, 64, 2, 1, "causal"),
    in_cluster(2, 1, 129, 128, 8, 1),
    in_cluster(3, 70, 60, 128, 1, 1, "causal"),
    in_cluster(5, 33, 400, 8),
    in_cluster(7, 60, 900, 96, 3, 1, "causal"),
]


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_values(case: Case) -> None:
    check(case)


def call(
    inputs: tuple[torch.Tensor, ...], split: str, size: int, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    function = fa4_cute.flash_attn_varlen if "cu_seqlens_q" in options else fa4_cute.flash_attn
    return function(*inputs, num_splits=size, split=split, return_lse=True, **options)


def test_the_only_launch_is_the_attention() -> None:
    with launches() as reports:
        call(dense(1, 5, 300), "cluster", 4)
    assert [report.verdict for report in reports] == ["clean"]


def test_a_prompt_takes_four_ctas_by_itself() -> None:
    """Bit for bit what a call has that asks for them."""
    q, k, v = (x[..., :1, :] for x in dense(1, 1280, 4096, 64))
    with launches() as reports:
        out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True)
    assert [report.verdict for report in reports] == ["clean"]
    asked, its_lse = call((q, k, v), "cluster", 4, num_qo=1)
    assert torch.equal(out, asked)
    assert torch.equal(lse, its_lse)


@pytest.mark.parametrize(("head_dim", "size"), [(128, 4), *also((64, 8), (128, 2), (192, 4))])
def test_the_workspace_gives_the_same_within_rounding(head_dim: int, size: int) -> None:
    operands = dense(2, 30, 900, head_dim)
    options = {"causal": True, "sink": torch.tensor([0.5, -1.0, 3.0, -math.inf])}
    (out, lse), (other, other_lse) = (
        call(operands, split, size, num_qo=1, **options) for split in ("cluster", "workspace")
    )
    # Both sum in float32, so they differ in the last place of bf16 where that rounds.
    torch.testing.assert_close(out, other, rtol=2.0**-7, atol=1e-5)
    torch.testing.assert_close(lse, other_lse, rtol=1e-6, atol=3e-6)


@pytest.mark.parametrize("size", [8])
def test_a_sequence_does_not_know_its_batch(size: int) -> None:
    """Bit for bit: alone, at another place of a batch, with and without rows after it, packed."""
    q, k, v = dense(3, 5, 700)
    used = ints([7, 300, 700])
    options = {"causal": True, "num_qo": 1}
    out, lse = call((q, k, v), "cluster", size, seqused_k=used, **options)
    for i in range(3):
        own = tuple(x[i : i + 1] for x in (q, k, v))
        alone = call(own, "cluster", size, seqused_k=used[i : i + 1], **options)
        assert torch.equal(alone[0], out[i : i + 1])
        assert torch.equal(alone[1], lse[i : i + 1])
    starts = ints([0, 5, 10, 15])
    packed = call(
        (q.flatten(0, 1), k, v), "cluster", size, seqused_k=used, cu_seqlens_q=starts, **options
    )
    assert torch.equal(packed[0], out.flatten(0, 1))


@pytest.mark.parametrize("head_dim", [128, *also(64)])
def test_rows_and_sequences_that_see_nothing(head_dim: int) -> None:
    q, k, v = dense(3, 40, 300, head_dim)
    hidden = masks.padding(ints([0, 300, 5]))
    out, lse = call((q, k, v), "cluster", 4, mask=hidden)
    assert torch.all(out[0] == 0)
    assert torch.all(lse[0] == -math.inf)
    compare(out, lse, (q, k, v), mask=hidden).check()
    # The first 30 queries stand before key 0.
    few = call((q, k[:, :10], v[:, :10]), "cluster", 4, causal=True)
    assert torch.all(few[0][:, :30] == 0)
    assert torch.all(few[1][..., :30] == -math.inf)
    compare(*few, (q, k[:, :10], v[:, :10]), causal=True).check()


@pytest.mark.parametrize("size", [8, *also(2)])
def test_the_sink_is_folded_once(size: int) -> None:
    """Rows without keys tell: their log-sum-exp is the sink, not some number of times the sink."""
    q, k, v = dense(1, 40, 10)
    sink = torch.tensor([0.5, -2.0, 30.0, -math.inf])
    out, lse = call((q, k, v), "cluster", size, causal=True, sink=sink)
    torch.testing.assert_close(lse[0, :3, 0], sink[:3], rtol=1e-6, atol=1e-6)
    assert lse[0, 3, 0] == -math.inf
    compare(out, lse, (q, k, v), causal=True, sink=sink).check()


def test_nan_reaches_its_rows_and_no_others() -> None:
    q, k, v = dense(1, 6, 700)
    q[0, 3, 1] = math.nan
    out, lse = call((q, k, v), "cluster", 4)
    assert torch.isnan(out[0, 3, 1]).all()
    assert torch.isnan(lse[0, 1, 3])
    out[0, 3, 1], lse[0, 1, 3] = 0, 0
    assert torch.isfinite(out).all()
    assert torch.isfinite(lse).all()


@pytest.mark.parametrize(
    ("features", "size"),
    [
        ("page16 window alibi", 8),
        *also(("bias union", 3), ("ragged cache sink causal", 3), ("ragged page256 softcap", 8)),
    ],
)
def test_features_together(features: str, size: int) -> None:
    case = Case(frozenset(features.split()), 128, lengths=((40, 700), (3, 133), (0, 9)))
    check(case, num_splits=size, split="cluster")


@pytest.mark.parametrize("size", [4])
def test_scales_per_token_of_fp8(size: int) -> None:
    q, k, v = (x.to(torch.float8_e4m3fn) for x in dense(1, 30, 600))
    generator = torch.Generator().manual_seed(3)
    q_scale, k_scale = (torch.rand(x.shape[:-1], generator=generator) + 0.5 for x in (q, k))
    out, lse = call((q, k, v), "cluster", size, q_scale=q_scale, k_scale=k_scale)
    compare_fp8(out, lse, (q, k, v), q_scale=q_scale, k_scale=k_scale).check()


def test_rope_columns() -> None:
    q, k, _ = dense(1, 30, 600, 192)
    v = dense(1, 30, 600)[2]
    out, lse = call((q, k, v), "cluster", 4, causal=True)
    compare(out, lse, (q, k, v), causal=True).check()


lengths = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 900)), min_size=1, max_size=3)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, int]:
    """Features of a call, and the size of its cluster."""
    others = sorted(set(FEATURES) - {"cluster", "split", "persistent"})
    features = draw(st.frozensets(st.sampled_from(others), max_size=4))
    head_dim = draw(st.sampled_from([16, 64, 72, 96, 128, 192]))
    # Rows of fp8 are multiples of 16 bytes, as those of the other types.
    head_dim += 8 if features & {"fp8", "tokens"} and head_dim % 16 else 0
    assume(is_possible({*features, "cluster"}, head_dim, 1))
    heads, kv_heads = draw(st.sampled_from([(1, 1), (4, 2), (3, 1), (8, 1)]))
    case = Case(
        features, head_dim, heads=heads, kv_heads=kv_heads, lengths=tuple(draw(lengths)), num_qo=1
    )
    assume(any(q for q, _ in case.sequences))
    assume(any(k for _, k in case.sequences))
    return case, draw(st.integers(2, 8))


@pytest.mark.exhaustive
@searched(6)
@given(cases())
def test_any_features_in_any_cluster(drawn: tuple[Case, int]) -> None:
    case, size = drawn
    check(case, num_splits=size, split="cluster")
