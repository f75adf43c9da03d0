"""The yardsticks with masks, modifiers, sinks and lengths: against definitions and PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute import masks, score_mods
from fa4_cute.plan.masks.masks import Mask
from testing.reference.attention import attention_float64, attention_plain, compare
from testing.reference.fp8 import compare_fp8
from testing.reference.scores import Scores
from tests.plan.mask_cases import MOST_KEYS, added, lengths, trees, with_bias

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
SLOPES = torch.tensor([0.5, 0.25, 0.1, 0.0])


def inputs(*q_shape: int, keys: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensors:
    generator = torch.Generator().manual_seed(3)
    shapes = (q_shape, keys, keys)
    q, k, v = (torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes)
    return q, k, v


def dense(dtype: torch.dtype = torch.float64) -> Tensors:
    return inputs(2, 9, 4, 16, keys=(2, 14, 2, 16), dtype=dtype)


def sdpa(operands: Tensors, bias: torch.Tensor | None = None) -> torch.Tensor:
    """torch's attention with what is added to the scores."""
    heads = (t.transpose(1, 2) for t in operands)
    out = torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias, enable_gqa=True)
    return out.transpose(1, 2)


@settings(deadline=None)
@given(trees(with_bias), st.integers(1, 12), st.integers(1, MOST_KEYS), lengths, st.data())
def test_masks_are_their_definition(
    mask: Mask, seqlen_q: int, seqlen_k: int, valid: tuple[int, ...], data: st.DataObject
) -> None:
    biases = (data.draw(st.integers(-4, 4)), data.draw(st.integers(-4, 4)))
    given_mask = masks.AttentionMask(
        mask,
        lengths=tuple(torch.tensor([99, n]) for n in valid),
        biases=tuple(torch.full((1, 1, 1, seqlen_k), float(b)) for b in biases),
    )
    scores = Scores(torch.zeros(1, seqlen_q, seqlen_k), 1)
    found = scores.added_by(given_mask).expand(1, seqlen_q, seqlen_k)[0].tolist()
    for i in range(seqlen_q):
        row = i + seqlen_k - seqlen_q
        for key in range(seqlen_k):
            expected = added(mask, row, key, valid, biases)
            assert found[i][key] == (-math.inf if expected is None else expected)


def test_a_bias_is_what_pytorch_adds() -> None:
    q, k, v = dense()
    bias = torch.randn(2, 4, 9, 14, dtype=torch.float64).float()
    exact = attention_float64(q, k, v, mask=masks.bias(bias))
    assert torch.allclose(exact.out, sdpa((q, k, v), bias.double()), atol=1e-10)
    one = attention_float64(q, k, v, mask=masks.bias(bias[:1, :, :1]))
    spread = bias[:1, :, :1].double().expand(2, 4, 9, 14)
    assert torch.allclose(one.out, sdpa((q, k, v), spread), atol=1e-10)


def test_short_forms_are_masks() -> None:
    operands = dense()
    window = attention_float64(*operands, window_size=(3, 2), causal=True)
    mask = masks.sliding_window(3, 2) & masks.causal()
    assert torch.equal(window.out, attention_float64(*operands, mask=mask).out)
    assert torch.equal(
        attention_float64(*operands, window_size=(-1, -1)).out, attention_float64(*operands).out
    )


def test_a_window_by_hand() -> None:
    """Scale 0: every row is the mean of the values that it sees."""
    q, k, v = dense()
    exact = attention_float64(q, k, v, window_size=(2, 1), softmax_scale=0.0)
    rows = v.repeat_interleave(2, 2)
    for i in range(9):
        row = i + 14 - 9
        seen = rows[:, max(0, row - 2) : row + 2]
        assert torch.allclose(exact.out[:, i], seen.mean(1), atol=1e-12)


def test_rows_that_see_nothing() -> None:
    q, k, v = dense()
    empty = masks.padding(torch.tensor([0, 14]))
    exact = attention_float64(q, k, v, mask=empty)
    assert torch.all(exact.out[0] == 0)
    assert torch.all(torch.isneginf(exact.lse[0]))
    assert torch.all(attention_plain(*dense(torch.bfloat16), mask=empty)[0] == 0)
    hidden = masks.bias(torch.full((1, 1, 1, 14), -math.inf))
    assert torch.all(attention_float64(q, k, v, mask=hidden).out == 0)


def test_sinks_take_their_share() -> None:
    """Scale 0: n keys have mass n / (n + exp(sink))."""
    q, k, v = dense()
    sink = torch.tensor([0.5, -1.0, 3.0, -math.inf])
    exact = attention_float64(q, k, v, sink=sink, softmax_scale=0.0)
    share = 14 / (14 + sink.double().exp())
    mean = v.mean(1, keepdim=True).repeat_interleave(2, 2)
    assert torch.allclose(exact.out, (mean * share[:, None]).expand_as(exact.out), atol=1e-12)
    assert torch.allclose(exact.lse[0, :, 0], torch.log(14 + sink.double().exp()))
    nothing = attention_float64(q, k, v, sink=sink, mask=masks.padding(torch.tensor([0, 0])))
    assert torch.all(nothing.out == 0)
    assert torch.equal(nothing.lse[1, :, 3], sink.double())


def test_modifiers_by_hand() -> None:
    q, k, v = dense()
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(2, 2)) / 4
    distance = (torch.arange(9)[:, None] + 5 - torch.arange(14)).abs()
    alibi = scores - SLOPES.double()[:, None, None] * distance
    expected = torch.softmax(3 * torch.tanh(alibi / 3), -1)
    values = v.repeat_interleave(2, 2)
    exact = attention_float64(q, k, v, score_mod=score_mods.alibi(SLOPES), softcap=3.0)
    assert torch.allclose(exact.out, torch.einsum("bhqk,bkhd->bqhd", expected, values), atol=1e-10)
    by_batch = score_mods.chain(score_mods.alibi(SLOPES.expand(2, 4)), score_mods.softcap(3.0))
    assert torch.allclose(exact.out, attention_float64(q, k, v, score_mod=by_batch).out)


def relative(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + aux[0][head] * (kv_idx - q_idx) + aux[1][batch, kv_idx]


def test_functions_run_on_tensors_too() -> None:
    q, k, v = dense()
    table = torch.randn(2, 14)
    mod = score_mods.function(relative, (SLOPES, table))
    exact = attention_float64(q, k, v, score_mod=mod)
    shift = torch.arange(14) - torch.arange(9)[:, None]
    bias = SLOPES.double()[:, None, None] * shift + table.double()[:, None, None, :]
    assert torch.allclose(exact.out, sdpa((q, k, v), bias.expand(2, 4, 9, 14)), atol=1e-10)
    same = attention_float64(q, k, v, score_mod=relative, aux_tensors=(SLOPES, table))
    assert torch.equal(exact.out, same.out)


def test_packed_sequences_are_dense_calls() -> None:
    q, k, v = inputs(10, 4, 16, keys=(13, 2, 16))
    starts_q, starts_k = torch.tensor([0, 3, 3, 10]), torch.tensor([0, 0, 6, 12])
    options: dict[str, Any] = {"causal": True, "sink": torch.zeros(4)}
    bias = torch.randn(3, 4, 7, 13)
    packed = attention_float64(
        q, k, v, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k, mask=masks.bias(bias), **options
    )
    assert packed.out.shape == (10, 4, 16)
    assert packed.lse.shape == (4, 10)
    for i, (rows, keys) in enumerate([((0, 3), (0, 0)), ((3, 3), (0, 6)), ((3, 10), (6, 12))]):
        one = attention_float64(
            q[None, slice(*rows)], *(t[None, slice(*keys)] for t in (k, v)),
            mask=masks.bias(bias[i : i + 1]), **options,
        )  # fmt: skip
        assert torch.equal(packed.out[slice(*rows)], one.out[0])
        assert torch.equal(packed.lse[:, slice(*rows)], one.lse[0])
        assert torch.equal(packed.weight[slice(*rows)], one.weight[0])
    plain = attention_plain(q, k, v, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)
    assert plain.shape == (10, 4, 16)


def test_pages_are_put_together_and_what_is_stale_is_left_out() -> None:
    q, k, v = dense()
    used = torch.tensor([5, 14])
    cut = attention_float64(q, k, v, seqused_k=used, causal=True)
    pages_k, pages_v = (torch.full((6, 4, 2, 16), math.nan, dtype=torch.float64) for _ in "kv")
    table = torch.tensor([[4, 2, -9, 77], [1, 5, 0, 3]])
    for number, length in enumerate(used.tolist()):
        for key in range(length):
            page = int(table[number, key // 4])
            pages_k[page, key % 4], pages_v[page, key % 4] = k[number, key], v[number, key]
    paged = attention_float64(q, pages_k, pages_v, page_table=table, seqused_k=used, causal=True)
    assert torch.equal(paged.out, cut.out)
    alone = attention_float64(q[:1], k[:1, :5], v[:1, :5], causal=True)
    assert torch.equal(cut.out[0], alone.out[0])


@pytest.mark.parametrize("name", ["mask", "softcap", "sink", "score_mod", "seqused_k"])
def test_a_feature_that_is_ignored_is_noticed(name: str) -> None:
    operands = dense(torch.bfloat16)
    features: dict[str, Any] = {
        "mask": masks.chunked(5),
        "softcap": 0.5,
        "sink": torch.ones(4),
        "score_mod": score_mods.alibi(SLOPES),
        "seqused_k": torch.tensor([9, 14]),
    }
    exact = attention_float64(*operands)
    asked = {name: features[name]}
    assert not compare(exact.out.bfloat16(), exact.lse.float(), operands, **asked).ok
    right = attention_float64(*operands, **asked)
    compare(right.out.bfloat16(), right.lse.float(), operands, **asked).check()


def test_nothing_in_a_batch() -> None:
    q, k, v = (t[:0] for t in dense())
    assert attention_float64(q, k, v).lse.shape == (0, 4, 9)
    assert attention_plain(q, k, v).shape == (0, 9, 4, 16)


def test_cuts_of_scores_count_by_the_scores_before_a_bias() -> None:
    """Scores of 6, which a bias brings to 0: a sum may be short by two cuts of 6, not of 0."""
    q, k, v = (torch.full((1, 1, 1, 64), x).to(torch.float8_e4m3fn) for x in (1.0, 0.75, 1.0))
    out, mask = v.bfloat16(), masks.bias(torch.full((1, 1, 1, 1), -6.0))
    lse = torch.tensor([[[1.5e-3]]])
    for sum_bits, failures in ((13, ()), (None, ("LSE is out of bounds",))):
        found = compare_fp8(out, lse, (q, k, v), equal_rows=True, sum_bits=sum_bits, mask=mask)
        assert found.failures == failures
