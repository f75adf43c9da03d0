"""What a rank refuses before any other waits for it, and what ranks compare."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute import masks
from fa4_cute.distributed.asked import Asked, band_of
from fa4_cute.host.ask.arguments import Options
from fa4_cute.plan.ranks.band import CAUSAL, FULL, Band
from fa4_cute.plan.ranks.shards import Layout


def asked(cu_seqlens: Any = None, others: Any = None, **options: Any) -> Asked:
    rows = (1, 6) if cu_seqlens is None else (6,)
    q, k = torch.zeros(*rows, 4, 64).half(), torch.zeros(*rows, 2, 64).half()
    method, layout = options.pop("method", "ring"), options.pop("layout", "zigzag")
    inputs = options.pop("inputs", (q, k, k))
    return Asked(inputs, Options(**options), method, layout, others or {}, cu_seqlens)


def test_a_dense_batch_is_described_by_its_rows() -> None:
    found = asked(layout="contiguous", causal=True).description()
    assert (found.rows, found.lengths) == ((6, 6), None)
    assert (found.layout, found.band) == (Layout.CONTIGUOUS, CAUSAL)
    assert found.common["method"] == "ring"
    assert found.common["shape of q without its rows"] == (1, 4, 64)
    assert found.common["element type of q"] == "torch.float16"


def test_rows_and_results_need_not_be_equal() -> None:
    short = tuple(torch.zeros(1, 5, heads, 64).half() for heads in (4, 2, 2))
    first, second = asked(return_lse=True).description(), asked(inputs=short).description()
    assert first.common == second.common
    assert first != second


@pytest.mark.parametrize("offsets", [[0, 4, 4, 9], torch.tensor([0, 4, 4, 9])])
def test_ragged_batches_are_described_by_lengths(offsets: Any) -> None:
    found = asked((offsets, [0, 1, 2, 3])).description()
    assert found.lengths == ((4, 0, 5), (1, 1, 1))
    assert found.rows == (6, 6)


@pytest.mark.parametrize(
    ("options", "band"),
    [
        ({}, FULL),
        ({"causal": True}, CAUSAL),
        ({"window_size": (5, -1)}, Band(5, None)),
        ({"window_size": (5, 3), "causal": True}, Band(5, 0)),
        ({"mask": masks.sliding_window(9, 4), "window_size": (None, 2)}, Band(9, 2)),
        ({"mask": masks.causal() & masks.full()}, CAUSAL),
    ],
)
def test_windows_are_bands(options: dict[str, Any], band: Band) -> None:
    assert band_of(Options(**options)) == band


@pytest.mark.parametrize(
    "mask",
    [
        masks.chunked(4),
        masks.padding(torch.tensor([3])),
        masks.bias(torch.zeros(1, 1, 1, 6)) & masks.causal(),
        masks.sliding_window(2, 0) | masks.sliding_window(0, 3),
    ],
)
def test_other_masks_are_refused(mask: masks.AttentionMask) -> None:
    with pytest.raises(NotImplementedError, match="one window around a row's own key"):
        asked(mask=mask).description()


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"method": "tree"}, ValueError, "method='tree': nearest supported choice: ring or"),
        ({"method": None}, TypeError, "method=NoneType: expected one of ring, all_gather"),
        ({"layout": "striped"}, ValueError, "layout='striped': nearest .* zigzag or contiguous"),
        ({"others": {"score_mod": abs}}, NotImplementedError, "score_mod: .* softcap"),
        ({"others": {"page_table": 1}}, NotImplementedError, "page_table: pages are not dealt"),
        ({"others": {"num_splits": 2}}, NotImplementedError, "num_splits: .* leave it out"),
        ({"others": {"is_causal": True}}, TypeError, "'is_causal'; nearest .* causal"),
        ({"others": {"out": 1}}, NotImplementedError, "out: several calls are joined; nearest"),
        ({"others": {"cu_seqlens_q": 1}}, NotImplementedError, "cu_seqlens_q: .*attn_varlen"),
        ({"q_scale": torch.ones(1)}, NotImplementedError, "q_scale=torch.Tensor: .* a number"),
        ({"unchecked": 1}, TypeError, "unchecked=1"),
        ({"cu_seqlens": ([0, 2], [0, 1, 2])}, ValueError, "cu_seqlens_k: 2 sequences, and .* 1"),
        ({"cu_seqlens": ([0, 3, 2], [0, 1, 2])}, ValueError, "cu_seqlens_q: sequence 1 has -1"),
        ({"cu_seqlens": ([1, 3], [0, 1])}, ValueError, r"cu_seqlens_q: starts with \(1,\)"),
        ({"cu_seqlens": (None, [0, 1])}, TypeError, "cu_seqlens_q=NoneType: expected"),
        ({"cu_seqlens": (torch.tensor([0.0, 2.0]), [0, 2])}, TypeError, "cu_seqlens_q=torch.Te"),
        ({"inputs": (None, None, None)}, TypeError, "q: expected a torch.Tensor, got NoneType"),
        ({"inputs": 3 * (torch.zeros(1, 2, 1, 60).half(),)}, NotImplementedError, "head_dim"),
        ({"sink": torch.zeros(3)}, ValueError, "sink"),
    ],
)
def test_refusals(given: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        asked(**given).description()


def test_a_device_without_a_kernel_is_refused() -> None:
    on_meta = tuple(torch.zeros(1, 6, 2, 64, device="meta").half() for _ in range(3))
    with pytest.raises(NotImplementedError, match="device meta is not supported"):
        asked(inputs=on_meta).description()
