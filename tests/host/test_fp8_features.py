"""fp8 operands together with every feature, against the bf16 kernel on the same values."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from sm100sim.options import Check, run_options

pytestmark = pytest.mark.slow

LENGTHS = torch.tensor([300, 7], dtype=torch.int32)


def head_dims(usual: int) -> pytest.MarkDecorator:
    """Return the head dim of every run, and those that only widen the search."""
    more = (d for d in (128, 192, 512) if d != usual)
    values = [usual, *(pytest.param(d, marks=pytest.mark.exhaustive) for d in more)]
    return pytest.mark.parametrize("head_dim", values)


def operands(head_dim: int, *shapes: tuple[int, ...]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(*shape, head_dim, generator=generator) for shape in shapes]
    return [x.to(torch.float8_e4m3fn) for x in made]


def check(inputs: list[Any], call: Any = fa4_cute.flash_attn, **options: Any) -> None:
    with run_options(checks=Check.ALL, mode="random", seed=1):
        out, lse = call(*inputs, return_lse=True, **options)
    report = fa4_cute.last_report()
    assert report is not None
    assert not report.findings
    wide, wide_lse = call(*(x.bfloat16() for x in inputs), return_lse=True, **options)
    both = [x.double().flatten() for x in (out, wide)]
    # The scores spread over all keys, and so does the rounding of P: 0.9997 is the causal gate.
    assert torch.nn.functional.cosine_similarity(*both, 0) >= 0.9996
    torch.testing.assert_close(lse, wide_lse, atol=2e-4, rtol=1e-4)


def dense(head_dim: int) -> list[Any]:
    return operands(head_dim, (2, 150, 4), (2, 400, 2), (2, 400, 2))


@head_dims(128)
def test_window_and_lengths(head_dim: int) -> None:
    check(dense(head_dim), window_size=(50, 20), seqused_k=LENGTHS)


@head_dims(512)
def test_bias_and_sink(head_dim: int) -> None:
    bias = torch.randn(1, 4, 150, 400, generator=torch.Generator().manual_seed(1))
    check(dense(head_dim), mask=masks.bias(bias), sink=torch.tensor([0.0, 3.0, -2.0, 8.0]))


@pytest.mark.exhaustive
@head_dims(128)
def test_softcap(head_dim: int) -> None:
    check(dense(head_dim), softcap=5.0, causal=True)


@pytest.mark.exhaustive
@head_dims(512)
def test_split_keys(head_dim: int) -> None:
    check(dense(head_dim), num_splits=3, causal=True)


@head_dims(512)
def test_pages_with_nan_after_the_last_key(head_dim: int) -> None:
    q, k, v = operands(head_dim, (2, 150, 4), (20, 64, 2), (20, 64, 2))
    table = torch.randperm(20, generator=torch.Generator().manual_seed(2))[:14].view(2, 7).int()
    used = torch.tensor([440, 300], dtype=torch.int32)
    for pages in (k, v):
        # 300 keys end in the middle of the fifth page of the second sequence.
        pages.view(torch.uint8)[table[1, 4], 300 - 4 * 64 :] = 0x7F
    check([q, k, v], page_table=table, seqused_k=used, causal=True)


@head_dims(128)
def test_packed_sequences(head_dim: int) -> None:
    inputs = operands(head_dim, (150, 4), (400, 2), (400, 2))
    check(
        inputs,
        fa4_cute.flash_attn_varlen,
        cu_seqlens_q=torch.tensor([0, 60, 150], dtype=torch.int32),
        cu_seqlens_k=torch.tensor([0, 100, 400], dtype=torch.int32),
        causal=True,
    )
