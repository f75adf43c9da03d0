from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.hopper.times.problems import TABLE, Problem
from benchmarks.hopper.times.report import TITLES
from benchmarks.hopper.times.tensors import visible

SMALL = Problem("full", 2, 5, 9, 4, 2, 64, 32)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 0, 3])
@pytest.mark.parametrize("lengths", [(5, 9), (9, 9), (9, 5), (1, 7)])
def test_pairs_are_what_the_mask_shows(
    lengths: tuple[int, int], window: int | None, causal: bool
) -> None:
    """The mask of the reference counts the same pairs."""
    p = replace(SMALL, seqlen_q=lengths[0], seqlen_k=lengths[1], causal=causal, window=window)
    assert p.pairs() == int(visible(p, torch.arange(p.seqlen_q)).sum())


def test_work_of_a_known_problem() -> None:
    p = Problem("full", 1, 4096, 4096, 16, 16, 128, 128)
    assert p.flops() == 4 * 4096 * 4096 * 2048
    assert replace(p, causal=True).flops() == 4 * (4096 * 4097 // 2) * 2048
    assert p.bytes() == 4 * 4096 * 2048 * 2
    assert replace(p, dtype="fp8").bytes() == 3 * 4096 * 2048 + 4096 * 2048 * 2
    assert SMALL.flops() == 2 * 2 * 4 * 45 * 96
    decode = Problem("decode", 2, 1, 100, 8, 1, 128, 128)
    assert decode.bytes() == 2 * (100 * 256 + 8 * 256) * 2
    biased = replace(p, causal=True, added="bias")
    assert biased.bytes() - p.bytes() == 16 * (4096 * 4097 // 2) * 2, "of what rows see, once"
    assert decode.by_bandwidth
    assert not p.by_bandwidth


def test_the_table_has_what_was_asked_for() -> None:
    names = [p.name for p in TABLE]
    assert len(set(names)) == len(names)
    assert {p.group for p in TABLE} == set(TITLES)
    full = [p for p in TABLE if p.group == "full"]
    dims = {(p.head_dim, p.head_dim_v) for p in full}
    assert dims == {(64, 64), (96, 96), (128, 128), (192, 128), (256, 256)}
    assert {p.seqlen_k for p in full} == {512 * 2**k for k in range(7)}
    assert {p.causal for p in full} == {True, False}
    assert all(p.batch * p.seqlen_k == max(16384, p.seqlen_k) for p in full)
    groups = [p.group for p in TABLE]
    assert groups == sorted(groups, key=groups.index), "the page has one table for a group"


def test_options_of_our_compiler_say_what_the_problem_is() -> None:
    paged = next(p for p in TABLE if p.group == "paged")
    assert paged.our_options()["page_size"] == 64
    packed = next(p for p in TABLE if p.group == "packed")
    assert packed.our_options()["ragged_q"]
    window = next(p for p in TABLE if p.group == "window")
    assert window.our_options()["window_size"] == (1023, 0)
