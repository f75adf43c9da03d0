"""Scores, biases and sinks as large as a float32 give the rows of float64, never NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.plan.facts.hardware import SM90A, SM100A
from tests.kernel.random_cases import also

BF16, FP16, FP8 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
LOWEST = torch.finfo(torch.float32).min
by_arch = pytest.mark.parametrize("arch", [SM100A, SM90A])
SPLITS: tuple[dict[str, Any], ...] = (
    {}, {"num_splits": 2, "split": "workspace"}, {"num_splits": 2, "split": "cluster"},
)  # fmt: skip


def unchanged(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score


def drawn(seqlens: tuple[int, int], heads: int, depth: int, dtype: torch.dtype) -> list[Any]:
    generator = torch.Generator().manual_seed(7)
    queries, keys = seqlens
    shapes = ((1, n, heads, depth) for n in (queries, keys, keys))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def exact(
    operands: list[Any], scale: float, bias: Any = None, sink: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE in float64; a row that sees neither key nor sink is 0 and minus infinity."""
    q, k, v = (x[0].double().transpose(0, 1) for x in operands)
    scores = q @ k.transpose(1, 2) * scale
    scores = scores if bias is None else scores + bias[0].double()
    if sink is not None:
        column = sink.double()[:, None, None].expand(-1, q.shape[1], 1)
        scores = torch.cat((scores, column), -1)
    weights = scores.softmax(-1).nan_to_num(0.0)[..., : k.shape[1]]
    return (weights @ v).transpose(0, 1)[None], torch.logsumexp(scores, -1)[None]


def check(found: tuple[Any, Any], want: tuple[Any, Any], tolerance: float = 0.02) -> None:
    (out, lse), (exact_out, exact_lse) = found, want
    torch.testing.assert_close(out.double(), exact_out, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(lse.double(), exact_lse, atol=1e-3, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "depth", "arch"),
    [(BF16, 64, SM100A), (FP8, 64, SM100A), (BF16, 256, SM100A), (FP16, 64, SM90A),
     (BF16, 256, SM90A), *also((FP16, 64, SM100A))],
    ids=str,
)  # fmt: skip
def test_large_scales(dtype: torch.dtype, depth: int, arch: str) -> None:
    """The row of the largest score alone, once scores are far enough apart."""
    operands = drawn((4, 300), 1, depth, dtype)
    for scale in (3e8, 1e9, 1.1e10, 1e20, 1e30, -1e10, -1e30):
        found = fa4_cute.flash_attn(*operands, softmax_scale=scale, return_lse=True, arch=arch)
        rounded = float(torch.tensor(scale).float())
        check(found, exact(operands, rounded))


@pytest.mark.slow
@pytest.mark.parametrize("score", [1e6, 3e7, 2e8, 1e9, 1e12, 1e30, -1e9])
@by_arch
def test_equal_large_scores_weigh_the_same(score: float, arch: str) -> None:
    """The rounding of the scaled maximum is a factor of all columns and must cancel."""
    _, _, v = drawn((4, 300), 1, 64, BF16)
    q, k = torch.zeros(1, 4, 1, 64, dtype=BF16), torch.zeros(1, 300, 1, 64, dtype=BF16)
    q[..., 0], k[..., 0] = 1.5, 1.25
    scale = score / 1.875
    found = fa4_cute.flash_attn(q, k, v, softmax_scale=scale, return_lse=True, arch=arch)
    check(found, exact([q, k, v], scale))


@pytest.mark.slow
@by_arch
def test_large_inputs(arch: str) -> None:
    q, k, v = drawn((4, 300), 1, 64, BF16)
    for factor in (1e5, 1e9, 1e15):
        operands = [(q * factor).to(BF16), (k * factor).to(BF16), v]
        check(fa4_cute.flash_attn(*operands, return_lse=True, arch=arch), exact(operands, 0.125))


@pytest.mark.slow
@pytest.mark.parametrize(
    "score_mod", [None, score_mods.function(unchanged)], ids=["alone", "function"]
)
@pytest.mark.parametrize(
    "split", [*SPLITS[:2], *also(SPLITS[2])], ids=str
)
@pytest.mark.parametrize("stored", [torch.float32, BF16])
def test_finite_biases_hide_nothing(
    split: dict[str, Any], stored: torch.dtype, score_mod: Any
) -> None:
    """Head 0 has no sink, head 1 one above every score, head 2 one below most.

    Alone, biases leave scores in natural units; beside a function they are binary logarithms.
    Splits that meet in a workspace are weighed by log-sum-exps in float32, in which the number of
    keys is lost beside such scores: there one split has all keys. Log-sum-exps are kept as binary
    logarithms, and so end at the lowest of these.
    """
    keys = 96 if split.get("split") == "workspace" else 160
    operands = drawn((4, keys), 3, 64, BF16)
    sink = torch.tensor([-math.inf, 0.0, -1e30])
    for value in (-50.0, -1e30, torch.finfo(BF16).min, LOWEST, -math.inf):
        bias = torch.full((1, 1, 4, keys), value).to(stored)
        bias[0, 0, 1, ::2] = -math.inf
        found = fa4_cute.flash_attn(
            *operands, mask=masks.bias(bias), score_mod=score_mod, sink=sink, return_lse=True,
            **split,
        )  # fmt: skip
        out, lse = exact(operands, 0.125, bias, sink)
        check(found, (out, torch.where(lse.isneginf(), lse, lse.clamp(min=LOWEST * math.log(2)))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "weight"), [(0.0, -7016.0), (1e-42, -7016.0), (1.0, -1e30), (0.125, -2.3e38)]
)
def test_a_row_without_keys_has_its_sink(scale: float, weight: float) -> None:
    operands = drawn((4, 150), 1, 64, BF16)
    out, lse = fa4_cute.flash_attn(
        *operands, softmax_scale=scale, sink=torch.tensor([weight]), return_lse=True,
        mask=masks.padding(torch.tensor([0])),
    )  # fmt: skip
    assert not out.any()
    torch.testing.assert_close(lse, torch.full_like(lse, weight))


@pytest.mark.slow
def test_infinite_operands_beside_a_hiding_bias_are_nan_as_in_torch() -> None:
    """A bias is added, so that minus infinity does not hide an infinite score."""
    q, k, v = drawn((4, 150), 3, 64, BF16)
    k[0, 5, 0, 0], q[0, 2, 0, 0] = math.inf, 1.0
    bias = torch.full((1, 1, 4, 150), -math.inf)
    bias[..., 7] = 0.0
    sink = torch.full((3,), -math.inf)
    out = fa4_cute.flash_attn(q, k, v, mask=masks.bias(bias), sink=sink, return_lse=True)[0]
    arguments = (x.float().transpose(1, 2) for x in (q, k, v))
    torchs = torch.nn.functional.scaled_dot_product_attention(*arguments, attn_mask=bias)
    assert torch.equal(out.isnan(), torchs.transpose(1, 2).isnan())
    assert out.isnan().any()
    assert not out[:, :, 1:].isnan().any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "arch", "options"),
    [(64, SM100A, {}), (128, SM100A, {"num_qo": 1}), (256, SM100A, {}), (512, SM100A, {}),
     (128, SM90A, {})],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("where", [90, 127, 170])
def test_infinite_scores_behind_a_causal_mask(
    depth: int, arch: str, options: dict[str, Any], where: int
) -> None:
    """One is NaN for the rows that see it, unless it is minus infinity, and nothing to the others.
    """
    operands = drawn((150, 190), 1, depth, BF16)
    q, k, v = operands
    k[0, where, 0, 0] = math.inf
    out, lse = fa4_cute.flash_attn(*operands, causal=True, arch=arch, return_lse=True, **options)
    scores = q[0, :, 0].double() @ k[0, :, 0].double().T * depth**-0.5
    hidden = torch.arange(190) > torch.arange(150)[:, None] + 40
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    bad = weights.isnan().any(-1)
    assert bad.any()
    assert not bad.all()
    assert torch.equal(out[0, :, 0].isnan().all(-1), bad)
    assert torch.equal(lse[0, 0].isnan(), bad)
    exact_out = weights[~bad] @ v[0, :, 0].double()
    torch.testing.assert_close(out[0, ~bad, 0].double(), exact_out, atol=0.02, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "options"), [(64, {"num_qo": 2}), (256, {})], ids=str)
def test_not_a_number_under_a_mask_spreads_through_modified_scores(
    depth: int, options: dict[str, Any]
) -> None:
    """Whether its exponential is the hardware's or a polynomial: columns of the last key tile."""
    operands = drawn((150, 190), 1, depth, BF16)
    for where in range(160, 190, 2):
        keys = operands[1].clone()
        keys[0, where] = math.nan
        given = operands[0], keys, operands[2]
        out, lse = fa4_cute.flash_attn(
            *given, causal=True, softcap=9.0, return_lse=True, **options
        )
        bad = torch.arange(150) + 40 >= where
        assert torch.equal(out[0, :, 0].isnan().all(-1), bad)
        assert torch.equal(lse[0, 0].isnan(), bad)
