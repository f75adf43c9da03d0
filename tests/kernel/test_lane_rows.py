"""Steps of fp8 over pages of 16: lanes copy K and V, and results are those of boxes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.compile.cache import compiled
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.cases import CUT, FP8, Case
from testing.runner import check, spec_of
from tests.kernel.features.test_row_copies import MIXED, STEPS, few
from tests.kernel.random_cases import also

PAGE, BOXED, DIM = 16, 64, 64
GENERATOR = torch.Generator().manual_seed(20261130)

CASES = (
    few("fp8 ragged page16 sink", DIM, STEPS, dtype=FP8, num_splits=1),
    few("fp8 stream_k ragged page16 causal", DIM, MIXED, heads=4, dtype=FP8),
)
MORE = (
    few("fp8 stream_k ragged page16 window sink", DIM, CUT, dtype=FP8),
    few("fp8 last page16 cache", DIM, ((1, 900), (1, 30), (1, 0)), num_splits=3, dtype=FP8),
    few("fp8 split ragged page16 softcap", DIM, CUT, num_splits=5, dtype=FP8),
    few("fp8 persistent ragged page16", DIM, MIXED, dtype=FP8),
    few("fp8 dynamic ragged page16 chunked", DIM, CUT, dtype=FP8),
    few("fp8 ragged page16 union function", 48, CUT, dtype=FP8),
    few("fp8 page16 cache bias padding", 16, ((3, 400), (3, 17)), dtype=FP8),
)


def by_lanes(case: Case) -> bool:
    config = spec_of(case).config
    return isinstance(config, FA4Config) and config.copies_by_lanes


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_rows_that_lanes_copy(case: Case) -> None:
    assert by_lanes(case)
    check(case)


OTHERS = (
    few("fp8 ragged page32", DIM, CUT, dtype=FP8),
    few("ragged page16", DIM, CUT),
    few("fp8 ragged page16", 128, CUT, dtype=FP8),
    few("fp8 tokens ragged page16", DIM, CUT, dtype=FP8),
    few("fp8 cluster page16 cache", DIM, ((1, 700),), num_splits=4, dtype=FP8),
    few("fp8 ragged page16", DIM, ((200, 700),), dtype=FP8),
)
"""Larger boxes, scales that boxes bring, a cluster, and rows that fill the lanes."""


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_all_other_kernels_have_boxes(case: Case) -> None:
    assert not by_lanes(case)


def random_fp8(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR).to(FP8)


def paged(rows: torch.Tensor, table: torch.Tensor, size: int) -> torch.Tensor:
    """Rows (batch, keys, heads, columns) in pages of ``size``, where ``table`` says."""
    pages = rows.new_empty(int(table.max()) + 1, size, *rows.shape[2:])
    pages[table.flatten().long()] = rows.reshape(-1, size, *rows.shape[2:])
    return pages


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor,
           used: torch.Tensor) -> torch.Tensor:  # fmt: skip
    return fa4_cute.flash_attn(
        q, k, v, page_table=table, seqused_k=used, scheduler="stream_k", unchecked=False
    )


def of_heads(pages: torch.Tensor) -> torch.Tensor:
    """The same pages, heads in front of keys in memory."""
    return pages.transpose(1, 2).contiguous().transpose(1, 2)


def beside(pages: torch.Tensor) -> torch.Tensor:
    """The same, every page a part of a larger one."""
    return torch.stack((pages, pages), dim=1)[:, 1]


def keys_first(pages: torch.Tensor) -> torch.Tensor:
    """The same, first keys of all pages in front of second ones."""
    return pages.transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("lay", [of_heads, beside, keys_first])
def test_bits_are_those_of_boxes_however_pages_lie(lay: Any) -> None:
    """Calls that follow have other addresses, and pools of other sizes."""
    for batch, keys in ((2, 256), (2, 256), (2, 384), (3, 192)):
        k, v = (random_fp8(batch, keys, 2, DIM) for _ in range(2))
        q = random_fp8(batch, 1, 8, DIM)
        used = torch.randint(1, keys + 1, (batch,), generator=GENERATOR, dtype=torch.int32)
        outs = []
        for size in (PAGE, BOXED):
            count = batch * keys // size
            places = torch.randperm(count + 2, generator=GENERATOR)[:count]
            table = places.to(torch.int32).reshape(batch, -1)
            k_pages, v_pages = (paged(rows, table, size) for rows in (k, v))
            if size == PAGE:
                k_pages, v_pages = lay(k_pages), lay(v_pages)
            outs.append(attend(q, k_pages, v_pages, table, used))
        assert torch.equal(*outs)


@pytest.mark.slow
def test_tables_need_no_pages_past_the_last_key() -> None:
    """Entries that no key needs name no page, and what lies behind the last key is NaN."""
    q, used = random_fp8(1, 1, 8, DIM), torch.tensor([37], dtype=torch.int32)
    k, v = (random_fp8(4, PAGE, 2, DIM) for _ in range(2))
    wanted = attend(q, k, v, torch.tensor([[2, 0, 3, 1]], dtype=torch.int32), used)
    for pages in (k, v):
        pages[3, 37 % PAGE :] = torch.nan
        pages[1] = torch.nan
    table = torch.tensor([[2, 0, 3, 2**30]], dtype=torch.int32)
    assert torch.equal(attend(q, k, v, table, used), wanted)


def test_the_kernel_asks_tma_for_queries_alone() -> None:
    """Of K and V, whose maps no instruction names, lanes copy 16 times a tile."""
    spec = spec_of(CASES[0])
    assert isinstance(spec, KernelSpec)
    ptx = compiled(spec).ptx
    loads = re.findall(r"cp\.async\.bulk\.tensor\S*shared\S*global\S*", ptx)
    copies = re.findall(r"cp\.async\.cg\.shared\.global", ptx)
    assert len(loads) == spec.row_copies
    assert len(copies) % spec.lane_pieces.page_rows == 0
    assert copies
