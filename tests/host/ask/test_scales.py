"""Scales of fp8 operands: what is accepted, what they do, and how errors say it."""

from __future__ import annotations

import math
import struct
from itertools import accumulate, pairwise
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.arguments import Options
from fa4_cute.host.ask.request import request
from fa4_cute.host.ask.scales import UNSCALED, Scales, scales_of, token_scales_of
from fa4_cute.host.ask.sequences import Sequences
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.config.token_rows import COPIES, copy_floats, packed_start
from fa4_cute.plan.facts.numbers import LOG2_E
from testing.reference.attention import attention_float64


def operands(dtype: torch.dtype = torch.float8_e4m3fn, head_dim: int = 64) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((1, 70, 4, head_dim), (1, 90, 2, head_dim), (1, 90, 2, head_dim))
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


def packed_scalars(**scales: Any) -> list[float]:
    asked = request(operands(), Options(softmax_scale=0.25, **scales))
    choice = choose(asked.problem)
    assert isinstance(choice, Choice)
    call = describe_call(asked.problem, asked.inputs, asked.tensors)
    params = pack_launch(choice.spec, call.described).params
    packed = dict(zip(choice.spec.params.names, params, strict=True))
    return [struct.unpack("<f", packed[name])[0] for name in ("scale_log2", "value_scale")]


def test_no_scales_are_ones() -> None:
    assert scales_of(Options(), operands()[0]) is UNSCALED
    assert Scales(1.0, 1.0, 1.0) == UNSCALED


def test_the_scales_of_q_and_k_join_the_softmax_scale() -> None:
    scale_log2, value_scale = packed_scalars(
        q_scale=3.0, k_scale=torch.tensor([[0.5]]), v_scale=-2
    )
    assert scale_log2 == pytest.approx(0.25 * 1.5 * LOG2_E)
    assert value_scale == -2.0


def test_the_kernel_does_not_depend_on_them() -> None:
    plain, scaled = (
        choose(request(operands(), options).problem)
        for options in (Options(), Options(q_scale=2.0, k_scale=3.0, v_scale=4.0))
    )
    assert isinstance(plain, Choice)
    assert isinstance(scaled, Choice)
    assert plain.spec is scaled.spec


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, 256])
def test_the_result_is_that_of_scaled_operands(head_dim: int) -> None:
    q, k, v = operands(head_dim=head_dim)
    out, lse = fa4_cute.flash_attn(
        q, k, v, causal=True, return_lse=True, q_scale=0.5, k_scale=torch.tensor(3.0), v_scale=-2.0
    )
    exact = attention_float64(q.float() * 0.5, k.float() * 3, v.float() * -2, causal=True)
    assert out.dtype == torch.bfloat16
    assert ((out - exact.out).abs() <= 2**-4 * exact.weight + 2**-8 * exact.out.abs() + 1e-3).all()
    torch.testing.assert_close(lse.double(), exact.lse, atol=2e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, 256])
def test_a_sink_is_lifted_like_everything_else(head_dim: int) -> None:
    q, k, v = operands(head_dim=head_dim)
    sink = torch.tensor([0.3, -1.0, 12.0, -math.inf])
    out, lse = fa4_cute.flash_attn(q, k, v, return_lse=True, sink=sink)
    exact = attention_float64(q.float(), k.float(), v.float())
    with_sink = torch.logaddexp(exact.lse, sink.double()[None, :, None])
    share = torch.exp(exact.lse - with_sink).transpose(1, 2).unsqueeze(-1)
    allowed = share * (2**-4 * exact.weight + 2**-8 * exact.out.abs()) + 1e-3
    assert ((out - exact.out * share).abs() <= allowed).all()
    torch.testing.assert_close(lse.double(), with_sink, atol=2e-4, rtol=1e-4)


def test_empty_calls_have_the_output_type_too() -> None:
    q, k, v = operands()
    assert fa4_cute.flash_attn(q[:, :0], k, v).dtype == torch.bfloat16
    out = fa4_cute.flash_attn(q, k[:, :0], v[:, :0], v_scale=3.0)
    assert out.dtype == torch.bfloat16
    assert out.abs().max() == 0


@pytest.mark.parametrize(
    ("scales", "error", "message"),
    [
        ({"q_scale": math.nan}, ValueError, "q_scale=nan: must be finite"),
        ({"k_scale": math.inf}, ValueError, "k_scale=inf: must be finite"),
        ({"v_scale": "2"}, TypeError, "v_scale='2': expected a number or a tensor of one element"),
        ({"q_scale": True}, TypeError, "q_scale=True"),
        (
            {"q_scale": torch.ones(1, 90, 4)},
            ValueError,
            r"q_scale: shape \(1, 90, 4\).*\(1, 70, 4\)",
        ),
        ({"k_scale": torch.ones(1, 90)}, ValueError, r"k_scale: shape \(1, 90\).*\(1, 90, 2\)"),
        ({"q_scale": torch.ones(1, 70, 4).half()}, TypeError, "q_scale.dtype=torch.float16"),
        ({"v_scale": torch.ones(2)}, ValueError, r"v_scale: shape \(2,\).*a tensor of one element"),
        ({"q_scale": 1e30, "k_scale": 1e30}, ValueError, r"softmax_scale \* q_scale \* k_scale"),
        ({"v_scale": 1e39}, ValueError, "v_scale=1e\\+39: exceeds float32"),
        ({"q_scale": torch.ones(1, device="meta")}, ValueError, "q_scale.device=meta"),
    ],
)
def test_wrong_scales(scales: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fa4_cute.flash_attn(*operands(), **scales)


def test_only_fp8_operands_are_scaled() -> None:
    with pytest.raises(ValueError, match=r"v_scale: only operands of torch.float8_e4m3fn"):
        fa4_cute.flash_attn(*operands(torch.bfloat16), v_scale=2.0)


def test_head_dims_are_multiples_of_16() -> None:
    support = fa4_cute.can_implement(*operands(head_dim=72))
    assert not support
    assert "72 bytes" in support.reason
    assert "head_dim=80" in str(support.nearest)
    assert fa4_cute.can_implement(head_dim=80, dtype="float8_e4m3fn")


def test_other_8_bit_types_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"float8_e5m2.*bf16, fp16, fp8_e4m3"):
        fa4_cute.flash_attn(*operands(torch.float8_e5m2))


@pytest.mark.parametrize("head_dim", [64, 192, 256, 512])
def test_every_kernel_has_scales_per_token(head_dim: int) -> None:
    q, k, v = operands(head_dim=head_dim)
    assert fa4_cute.can_implement(q, k, v, q_scale=torch.ones(1, 70, 4))
    options: dict[str, Any] = {"head_dim": head_dim, "dtype": "fp8_e4m3", "token_scales": True}
    text = fa4_cute.explain(**options, page_size=64)
    assert "_tokens" in text
    assert "a scale for every token of q and k" in text


@pytest.mark.parametrize(
    "rope", [{"head_dim": 128}, {"head_dim": 192, "head_dim_v": 128, "rope_dtype": "bf16"}]
)
def test_so_has_a_pair_for_small_head_dims(rope: dict[str, Any]) -> None:
    options = rope | {"dtype": "fp8_e4m3", "token_scales": True, "pair_cta": True}
    assert fa4_cute.can_implement(**options)
    assert "_tokens_pair" in fa4_cute.explain(**options, page_size=64)


def test_scales_of_pages_are_read_in_place_when_they_lie_by_head() -> None:
    q, _, _ = operands()
    pages = torch.zeros(6, 16, 2, 64).to(torch.float8_e4m3fn)
    by_head, where = torch.rand(6, 2, 16), Sequences(1, 70, 96, page_size=16)
    options = Options(k_scale=by_head.transpose(1, 2))
    of_q, of_k = token_scales_of(options, q, pages, where=where)
    assert of_k.data_ptr() == by_head.data_ptr()
    assert torch.equal(of_q, torch.ones(1, 70, 4))
    for given in (by_head.transpose(1, 2).contiguous(), torch.rand(6 * 32 + 1)[1:].view(6, 16, 2)):
        _, of_k = token_scales_of(Options(k_scale=given), q, pages, where=where)
        assert torch.equal(of_k, given.transpose(1, 2))
        assert of_k.is_contiguous()
        assert of_k.data_ptr() % 16 == 0


def test_scales_of_packed_keys_lie_where_the_kernel_looks() -> None:
    lengths = (5, 0, 1, 7)
    starts = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    q = torch.zeros(9, 2, 64).to(torch.float8_e4m3fn)
    k = torch.zeros(sum(lengths) + 3, 2, 64).to(torch.float8_e4m3fn)
    given = torch.rand(k.shape[:-1])
    given[sum(lengths) :] = math.nan
    where = Sequences(len(lengths), 9, max(lengths), cu_seqlens_k=starts)
    _, of_k = token_scales_of(Options(k_scale=given), q, k, where=where)
    assert of_k.shape == (1, 2, COPIES * copy_floats(k.shape[0]))
    for number, length in enumerate(lengths):
        first = int(starts[number])
        place = packed_start(first, of_k.shape[-1])
        own = of_k[0, :, place : place + length]
        assert torch.equal(own, given[first : first + length].t())


def test_no_sequence_has_no_scales() -> None:
    q, k = (torch.zeros(n, 2, 64).to(torch.float8_e4m3fn) for n in (0, 3))
    starts = torch.zeros(1, dtype=torch.int32)
    where = Sequences(0, 0, 0, cu_seqlens_k=starts)
    _, of_k = token_scales_of(Options(k_scale=torch.ones(3, 2)), q, k, where=where)
    assert of_k.shape == (1, 2, COPIES * copy_floats(3))


def test_more_packed_keys_than_a_kernel_counts_are_refused() -> None:
    total = 2**29
    q, k = (torch.empty(n, 1, 64, dtype=torch.float8_e4m3fn, device="meta") for n in (1, total))
    where = Sequences(1, 1, total, cu_seqlens_k=torch.empty(2, device="meta"))
    scales = torch.empty(total, 1, device="meta")
    with pytest.raises(ValueError, match="k_scale: scales of 536870912 packed keys exceed"):
        token_scales_of(Options(k_scale=scales), q, k, where=where)


@pytest.mark.parametrize(
    ("shape", "want"), [((6, 16), r"\(6, 16, 2\)"), ((6, 2, 16), r"\(6, 16, 2\)")]
)
def test_scales_of_pages_have_the_shape_of_pages(shape: tuple[int, ...], want: str) -> None:
    q, _, _ = operands()
    pages = torch.zeros(6, 16, 2, 64).to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=rf"k_scale: shape.*nearest supported choice: {want}"):
        fa4_cute.flash_attn(
            q, pages, pages, page_table=torch.zeros(1, 1, dtype=torch.int32),
            seqused_k=torch.tensor([16], dtype=torch.int32), k_scale=torch.ones(shape),
        )  # fmt: skip


@pytest.mark.slow
def test_packed_queries_have_packed_scales() -> None:
    q, k, v = operands()
    q_scale, k_scale = torch.linspace(0.5, 2.0, 280).view(70, 4), torch.ones(2, 90, 2)
    k_scale[1] = 2.0
    keys, values = k.repeat(2, 1, 1, 1), v.repeat(2, 1, 1, 1)
    bounds = (0, 20, 70)
    out = fa4_cute.flash_attn_varlen(
        q[0], keys, values, cu_seqlens_q=torch.tensor(bounds, dtype=torch.int32), causal=True,
        q_scale=q_scale, k_scale=k_scale,
    )  # fmt: skip
    for i, (start, stop) in enumerate(pairwise(bounds)):
        scaled = (q.float() * q_scale[:, :, None])[:, start:stop]
        exact = attention_float64(scaled, k.float() * (i + 1), v.float(), causal=True)
        allowed = 2**-4 * exact.weight + 2**-8 * exact.out.abs() + 1e-3
        assert ((out[None, start:stop] - exact.out).abs() <= allowed).all()


def test_scales_of_other_operands_are_refused_without_tensors_too() -> None:
    for dtype in ("bf16", "fp16"):
        said = f"token_scales: only operands of fp8_e4m3 have scales, not {dtype}; nearest"
        support = fa4_cute.can_implement(head_dim=64, dtype=dtype, token_scales=True)
        assert not support
        assert support.reason.startswith(said)
        told = fa4_cute.explain(head_dim=64, dtype=dtype, token_scales=True)
        assert told.startswith(f"not supported: {said}")
    assert fa4_cute.can_implement(head_dim=64, dtype="fp8_e4m3", token_scales=True)
