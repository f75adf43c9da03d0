"""Which tensors are used where they are, which are copied, and what memory a launch may touch."""

from __future__ import annotations

import pytest
import torch

from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.run.operands import describe_call, extent, fits_tma, readable

ITEM = 2


def base(*shape: int) -> torch.Tensor:
    return (
        torch.arange(torch.Size(shape).numel(), dtype=torch.float32).to(torch.float16).view(shape)
    )


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [
        ((2, 5, 3, 64), (960, 192, 64, 1), True),
        ((2, 5, 3, 64), (960, 64, 320, 1), True),  # (batch, heads, seqlen, head_dim) memory
        ((2, 5, 3, 64), (2880, 576, 64, 1), True),  # a view of packed QKV
        ((2, 5, 3, 64), (960, 192, 64, 2), False),  # rows that are not contiguous
        ((2, 5, 3, 64), (960, 192, 68, 1), False),  # 136 bytes
        ((2, 5, 3, 64), (960, 192, 0, 1), False),  # broadcast over heads
        ((2, 5, 1, 64), (960, 192, 0, 1), True),  # the stride of one element is never used
        ((1, 1, 1, 64), (7, 7, 7, 1), True),
        ((2, 5, 3, 64), (2**39, 192, 64, 1), False),  # 2**40 bytes
        ((2, 5, 3, 64), (2**39 - 8, 192, 64, 1), True),
    ],
)
def test_what_tma_can_read(shape: tuple[int, ...], strides: tuple[int, ...], fits: bool) -> None:
    assert fits_tma(4096, shape, strides, ITEM) is fits
    assert not fits_tma(4096 + 8, shape, strides, ITEM)


def views() -> dict[str, torch.Tensor]:
    packed = base(2, 5, 3, 3, 64)
    return {
        "contiguous": base(2, 5, 3, 64),
        "heads first": base(2, 3, 5, 64).transpose(1, 2),
        "packed": packed[:, :, 1],
        "every second row": base(2, 10, 3, 64)[:, ::2],
        "batch of one": base(1, 5, 3, 64),
    }


@pytest.mark.parametrize("name", list(views()))
def test_used_in_place(name: str) -> None:
    view = views()[name]
    assert readable(view) is view


def copies() -> dict[str, torch.Tensor]:
    return {
        "columns strided": base(2, 5, 3, 128)[..., ::2],
        "misaligned start": base(2, 5, 3, 72)[..., 4:68],
        "row of 136 bytes": base(2, 5, 3, 68)[..., :64],
        "expanded": base(2, 5, 1, 64).expand(2, 5, 3, 64),
        "transposed": base(2, 5, 64, 3).transpose(2, 3),
    }


@pytest.mark.parametrize("name", list(copies()))
def test_copied(name: str) -> None:
    view = copies()[name]
    before = view.clone()
    copy = readable(view)
    assert torch.equal(copy, view)
    assert copy.data_ptr() != view.data_ptr()
    assert fits_tma(copy.data_ptr(), copy.shape, copy.stride(), ITEM)
    assert torch.equal(view, before)


def test_contiguous_but_misaligned_tensor_is_moved() -> None:
    storage = base(2 * 5 * 3 * 64 + 4)
    view = storage[4:].view(2, 5, 3, 64)
    assert view.is_contiguous()
    copy = readable(view)
    assert copy.data_ptr() % 16 == 0
    assert torch.equal(copy, view)


def test_negative_bit_is_resolved() -> None:
    plain = base(1, 4, 2, 8)
    view = torch._neg_view(plain)  # what the imaginary part of a conjugated tensor is
    assert view.data_ptr() == plain.data_ptr()
    assert torch.equal(readable(view), -plain)
    assert not readable(view).is_neg()


def test_memory_of_a_call() -> None:
    packed = base(2, 5, 3, 3, 64)
    q, k, v = packed.unbind(2)
    call = describe_call(Problem.from_tensors(q, k, v, return_lse=True), (q, k, v))
    assert call.out.shape == q.shape
    assert call.out.is_contiguous()
    assert call.lse.shape == (2, 3, 5)
    assert call.lse.dtype == torch.float32
    buffers = call.host_buffers()
    assert [b.writable for b in buffers] == [False, False, False, True, True]
    # The extent of a view ends with its last element, not with its storage.
    assert buffers[0].address == packed.data_ptr()
    assert buffers[0].size == ((2 * 5 - 1) * 3 * 192 + 192) * ITEM
    assert buffers[3].size == call.out.numel() * ITEM
    described = call.described
    assert described.q.layout.strides == tuple(q.stride())
    assert described.k.address == k.data_ptr()
    assert described.lse == call.lse.data_ptr()
    assert described.softmax_scale == 1 / 8


def test_extent_of_nothing() -> None:
    assert extent(base(2, 0, 3, 64), writable=False).size == 0
