"""What judges the machine: names, sizes, and results that are known another way."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from benchmarks.timing.judges import problems
from benchmarks.timing.judges.cases import CASES, FMHA, OURS, ROUNDED, TRITON_BAGS, Case, error_of
from benchmarks.timing.judges.problems import Attention, Bags, Paged, Softmax, Taps, Transposed

FAMILIES_AT_LEAST, CASES_AT_LEAST = 8, 40


def test_there_are_enough_and_their_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= CASES_AT_LEAST
    assert len({case.family for case in CASES}) >= FAMILIES_AT_LEAST


def test_ladders_have_several_variants_of_one_problem() -> None:
    ladders = [case.ladder for case in CASES]
    for family in ("CUTLASS dense GEMM", "Triton GEMM, boxes", OURS):
        problem = next(case.problem for case in CASES if case.family == family)
        assert ladders.count(f"{family} {problem.name}") > 3


def test_attention_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "TOKENS", 128)
    monkeypatch.setattr(problems, "HIDDEN", 32)
    for causal in (False, True):
        for by_head in (False, True):
            problem = Attention(64, 16, causal, by_head)
            t = {n: torch.randn(shape) for n, shape in problem.shapes().items()}
            assert t["q"].shape == ((2, 2, 64, 16) if by_head else (2, 64, 2, 16))
            q, k, v = (t[n] if by_head else t[n].transpose(1, 2) for n in "qkv")
            known = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            found = problem.expected(t)
            assert torch.allclose(found if by_head else found.transpose(1, 2), known, atol=1e-5)


def test_kernels_that_write_more_have_more_tensors() -> None:
    case = Case("any", Attention(1024, 64), "")
    assert "lse" not in case.shapes()
    fmha = replace(case, family=FMHA)
    assert fmha.shapes()["lse"] == (16, 1024, 32, 1)
    assert fmha.dtype("lse") == torch.float32
    assert replace(case, family=OURS).dtype("q") == torch.bfloat16


def test_rows_of_a_softmax_sum_to_one() -> None:
    problem = Softmax(3, 8)
    found = problem.expected({"x": torch.randn(problem.shapes()["x"])})
    assert torch.allclose(found.sum(-1), torch.ones(3))


def test_tensors_are_drawn_alike_each_time_and_nothing_is_written_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "TOKENS", 128)
    monkeypatch.setattr(problems, "HIDDEN", 32)
    case = Case(FMHA, Attention(64, 16), "")
    first, again = case.drawn("cpu"), case.drawn("cpu")
    assert {name: tuple(t.shape) for name, t in first.items()} == case.shapes()
    assert all(first[name].equal(again[name]) for name in "qkv")
    assert all(first[name].isnan().all() for name in ("out", "lse"))
    expected = case.problem.expected(first)
    assert not error_of(first["out"], expected) <= ROUNDED
    assert error_of(expected.half(), expected) <= ROUNDED
    assert error_of(2 * expected, expected) == pytest.approx(1)


def test_pages_in_any_order_hold_the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries of the end of each sequence, over pages put together by hand, as torch has it."""
    monkeypatch.setattr(problems, "TOKENS", 128)
    monkeypatch.setattr(problems, "HIDDEN", 64)
    case = Case(OURS, Paged(64, 16, True, page=16, queries=8, shared=2), "")
    t = {name: x.float() if x.is_floating_point() else x for name, x in case.drawn("cpu").items()}
    assert t["lengths"].tolist() == [64, 64]
    assert sorted(t["table"].flatten().tolist()) == [*range(8)]
    k, v = (
        torch.stack([torch.cat([t[name][page] for page in row]) for row in t["table"].tolist()])
        .transpose(1, 2).repeat_interleave(2, 1)
        for name in "kv"
    )  # fmt: skip
    mask = torch.ones(8, 64, dtype=torch.bool).tril(64 - 8)
    known = torch.nn.functional.scaled_dot_product_attention(
        t["q"].transpose(1, 2), k, v, attn_mask=mask
    )
    assert torch.allclose(case.problem.expected(t).transpose(1, 2), known, atol=1e-5)


def test_sums_of_neighbours_and_of_named_rows() -> None:
    taps = Taps(2, 6, 3)
    x, weight = torch.randn(taps.shapes()["x"]), torch.randn(3)
    known = torch.nn.functional.conv1d(x[:, None], weight[None, None])[:, 0, :6]
    assert torch.allclose(taps.expected({"x": x, "weight": weight, "out": known}), known, atol=1e-5)
    bags = Case(TRITON_BAGS, Bags(5, 4, 3, 2, 1), "")
    t = bags.drawn("cpu")
    rows = t["table"].tolist()
    assert {row for bag in rows for row in bag} <= {*range(5)}
    by_hand = torch.stack([sum(t["x"][row].float() for row in bag) for bag in rows])
    assert torch.allclose(bags.problem.expected(t), by_hand)
    turned = Transposed(2, 3)
    assert turned.expected({"x": torch.arange(6.0).view(2, 3)}).tolist() == [[0, 3], [1, 4], [2, 5]]
