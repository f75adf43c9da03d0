"""Tensors that a caller gives for O and the log-sum-exp."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from tests.host.request_cases import HEADS, QUERIES, dense, half, refused, varlen

SHAPE = (2, QUERIES, HEADS, 64)
ROWS = (2, HEADS, QUERIES)


def inputs(seqlen_k: int = 9) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    shapes = (SHAPE, (2, seqlen_k, 2, 64), (2, seqlen_k, 2, 64))
    return tuple(torch.randn(s, generator=generator).bfloat16() for s in shapes)


def buffers() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full(SHAPE, 7.0).bfloat16(), torch.full(ROWS, 7.0)


@pytest.mark.slow
def test_they_are_written_and_returned() -> None:
    q, k, v = inputs()
    want, want_lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True)
    out, lse = buffers()
    versions = out._version, lse._version
    got, got_lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True, out=out, lse=lse)
    assert got is out
    assert got_lse is lse
    assert torch.equal(out, want)
    assert torch.equal(lse, want_lse)
    assert (out._version, lse._version) == tuple(v + 1 for v in versions)


@pytest.mark.slow
def test_only_one_of_them() -> None:
    q, k, v = inputs()
    want, want_lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True)
    out, lse = buffers()
    assert fa4_cute.flash_attn(q, k, v, causal=True, out=out) is out
    assert torch.equal(out, want)
    got, got_lse = fa4_cute.flash_attn(q, k, v, causal=True, return_lse=True, lse=lse)
    assert got_lse is lse
    assert torch.equal(lse, want_lse)
    assert torch.equal(got, want)


@pytest.mark.slow
def test_split_keys_end_there_too() -> None:
    q, k, v = inputs(200)
    options: dict[str, Any] = {"num_splits": 2, "split": "workspace"}
    want = fa4_cute.flash_attn(q, k, v, **options)
    with torch.inference_mode():
        out = torch.full(SHAPE, 7.0).bfloat16()
        assert fa4_cute.flash_attn(q, k, v, out=out, **options) is out
    assert torch.equal(out, want)


def test_without_keys_they_are_filled() -> None:
    q, k, v = inputs(0)
    out, lse = buffers()
    got = fa4_cute.flash_attn(q, k, v, return_lse=True, out=out, lse=lse)
    assert got[0] is out
    assert got[1] is lse
    assert not out.any()
    assert lse.isneginf().all()


def test_of_packed_queries_and_fp8() -> None:
    fp8 = {name: t.to(torch.float8_e4m3fn) for name, t in dense().items()}
    refused(fp8, TypeError, "nearest supported choice: torch.bfloat16", out=fp8["q"].clone())
    refused(
        varlen(), ValueError, f"nearest supported choice: (8, {HEADS}, 64)", out=half(8, 64, HEADS)
    )
    refused(
        varlen(), ValueError, f"nearest supported choice: ({HEADS}, 8)",
        return_lse=True, lse=torch.zeros(8, HEADS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "changes"),
    [
        (TypeError, "out: expected a torch.Tensor, got int", {"out": 1}),
        (TypeError, "lse: given, but return_lse=False", {"lse": torch.zeros(ROWS)}),
        (TypeError, "lse.dtype=torch.bfloat16: nearest supported choice: torch.float32",
         {"lse": half(*ROWS), "return_lse": True}),
        (ValueError, "out: shape (2, 5, 4, 32); nearest supported choice: (2, 5, 4, 64)",
         {"out": half(2, 5, 4, 32)}),
        (ValueError, "differs from q.device", {"out": half(*SHAPE).to("meta")}),
        (ValueError, "a contiguous tensor", {"out": half(2, 4, 5, 64).transpose(1, 2)}),
        (ValueError, "a multiple of 16 bytes", {"out": half(2561)[1:].view(SHAPE)}),
        (NotImplementedError, "out.requires_grad=True", {"out": half(*SHAPE).requires_grad_()}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    error: type[Exception], words: str, changes: dict[str, Any]
) -> None:
    refused(dense(), error, words, **changes)


def test_memory_of_an_input_is_refused() -> None:
    call = dense()
    refused(call, ValueError, "out: shares memory with q", out=call["q"])
    room = half(2 * QUERIES * HEADS * 64 + 64)
    call["q"] = room[64:].view(SHAPE)
    refused(call, ValueError, "out: shares memory with q", out=room[:-64].view(SHAPE))
    sink = torch.zeros(HEADS)
    both = torch.zeros(2 * HEADS * QUERIES + HEADS)
    both_lse = both[: 2 * HEADS * QUERIES].view(ROWS)
    fits = {"sink": sink, "lse": both_lse, "return_lse": True}
    refused({**dense(), **fits}, ValueError, "lse: shares memory with another argument",
            sink=both[QUERIES : QUERIES + HEADS])  # fmt: skip
    both_out = torch.zeros(1 << 12).bfloat16()
    out = both_out[: 2 * QUERIES * HEADS * 64].view(SHAPE)
    lse = both_out.view(torch.float32)[: 2 * QUERIES * HEADS].view(ROWS)
    refused(dense(), ValueError, "lse: shares memory with out", out=out, lse=lse, return_lse=True)
