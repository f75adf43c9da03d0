from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend

from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.runners import NotOffered, _sdpa, ours, torch_varlen
from benchmarks.hopper.times.tensors import error, last_sequence, make, of_cache, shapes

SMALL = Problem("full", 2, 80, 96, 4, 2, 64, 32)
PAGED = replace(SMALL, seqlen_q=1, page=16, seqlen_k=90)
PACKED = replace(SMALL, seqlen_q=96, packed=True, causal=True)
WINDOW = replace(SMALL, causal=True, window=20)


@pytest.mark.parametrize("problem", [SMALL, PAGED, PACKED, WINDOW])
def test_a_right_result_has_no_error_and_a_wrong_one_has(problem: Problem) -> None:
    """Against torch's arithmetic in float64, which is written another way."""
    tensors = make(problem, "cpu")
    assert {name: tuple(t.shape) for name, t in tensors.items()} == shapes(problem)
    assert error(problem, tensors) == float("inf"), "nothing has been written yet"
    q, k, v, out = last_sequence(problem, tensors)
    heads_first = [x.double().transpose(0, 1) for x in (q, k, v)]
    first = problem.seqlen_k - problem.seqlen_q
    rows, keys = torch.arange(len(q))[:, None] + first, torch.arange(problem.seqlen_k)
    mask = torch.ones(len(q), problem.seqlen_k, dtype=torch.bool)
    if problem.causal:
        mask &= keys <= rows
    if problem.window is not None:
        mask &= keys >= rows - problem.window
    right = torch.nn.functional.scaled_dot_product_attention(
        *heads_first, attn_mask=mask, enable_gqa=True
    )
    out.copy_(right.transpose(0, 1))
    assert error(problem, tensors) < 4e-3, "the rounding of bf16"
    out[-1] += 1.0
    assert error(problem, tensors) > 1e-2


def test_sequences_of_a_cache_have_pages_of_their_own() -> None:
    lengths = (90, 1, 0, 33)
    found = of_cache(replace(PAGED, batch=len(lengths)), lengths, "cpu")
    assert found["lengths"].tolist() == list(lengths)
    assert len(found["q"]) == len(found["out"]) == len(lengths)
    used = [page for row, n in zip(found["table"], (6, 1, 0, 3), strict=True) for page in row[:n]]
    assert sorted(int(page) for page in used) == list(range(len(found["k"])))
    assert found["table"].shape == (4, 6)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [PAGED, PACKED, WINDOW])
def test_our_call_is_what_the_problem_asks_for(problem: Problem) -> None:
    """On the simulator: tensors of a CPU."""
    problem = replace(problem, head_dim=64, head_dim_v=64)
    tensors = make(problem, "cpu")
    ours(problem, tensors)()
    assert error(problem, tensors) < 1e-2


def test_sdpa_reads_the_same_memory() -> None:
    problem = replace(SMALL, seqlen_q=96, heads_kv=4, head_dim_v=64, causal=True)
    tensors = make(problem, "cpu")
    _sdpa(SDPBackend.MATH, problem, tensors)()
    assert error(problem, tensors) < 1e-2


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (PAGED, "no fp8, window, pages"),
        (WINDOW, "no fp8, window, pages"),
        (replace(SMALL, dtype="fp8"), "no fp8"),
        (replace(SMALL, causal=True), "top left"),
    ],
)
def test_sdpa_says_what_it_does_not_offer(problem: Problem, words: str) -> None:
    with pytest.raises(NotOffered, match=words):
        _sdpa(SDPBackend.MATH, problem, {})


def test_varlen_is_for_packed_rows_and_windows() -> None:
    with pytest.raises(NotOffered, match="only for packed"):
        torch_varlen(SMALL, {})
    for more in ({"softcap": 50.0}, {"sink": True}, {"added": "alibi"}):
        with pytest.raises(NotOffered, match="no softcap, sinks"):
            torch_varlen(replace(SMALL, causal=True, window=20, **more), {})
