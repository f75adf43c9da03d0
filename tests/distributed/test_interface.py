"""Ranks on gloo against one process and float64.

An O that is joined from partial results in bfloat16 has one more rounding than one kernel's: of
each part, weighted, so at most half a unit in the last place of ``P |V|``. ``compare`` holds
it to the same bounds, twice the error of plain PyTorch and 2.5 roundings an element.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute import distributed
from fa4_cute.plan.ranks.band import CAUSAL, FULL, Band
from testing.reference.attention import compare
from tests.distributed.ranks import Case, together

BOTH = (CAUSAL, FULL)
OPEN_RIGHT = Band(0, None)
CAUSAL_OPTION = {"causal": True}

TWO = {
    "dense": Case(250, options=CAUSAL_OPTION, bands=BOTH),
    "gathered": Case(256, "all_gather", options=CAUSAL_OPTION, bands=BOTH),
    "window": Case(
        170, layout="contiguous", options={"window_size": (40, 0), "sink": True},
        bands=(CAUSAL, FULL, OPEN_RIGHT, Band(40, 0)),
    ),
    "longer keys": Case(60, lengths_k=130, options={"softmax_scale": 0.2}, bands=BOTH),
    "ragged": Case((100, 0, 37, 3), options=CAUSAL_OPTION, bands=BOTH),
    "ragged, gathered": Case((300, 37, 64), "all_gather", options=CAUSAL_OPTION, bands=BOTH),
}  # fmt: skip
FOUR = {
    "dense": Case(256, options={"causal": True, "sink": True}, bands=BOTH),
    "ranks without rows": Case(3, options=CAUSAL_OPTION, bands=BOTH),
    "ragged": Case((90, 1, 33), lengths_k=(64, 0, 129), options=CAUSAL_OPTION, bands=BOTH),
    "unchecked": Case(64, options={"causal": True, "unchecked": True}, repeated=2, bands=BOTH),
    "a group of its own": Case(64, options=CAUSAL_OPTION, members=(1, 3), bands=BOTH),
}
WIDER = {
    "window to both sides": Case(
        200, options={"window_size": (30, 20), "sink": True},
        bands=(CAUSAL, FULL, OPEN_RIGHT, Band(50, 0)),
    ),
    "window, gathered": Case(
        (200, 9, 77), "all_gather", "contiguous", options={"window_size": (30, 0)},
        bands=(CAUSAL, FULL, OPEN_RIGHT, Band(30, 0)),
    ),
    "softcap": Case(300, options={"causal": True, "softcap": 3.0}, bands=BOTH),
    "more queries than keys": Case(256, lengths_k=100, options=CAUSAL_OPTION, bands=BOTH),
    "contiguous": Case((256, 100), layout="contiguous", options=CAUSAL_OPTION, bands=BOTH),
    "nothing": Case((0, 0)),
    "no keys": Case(20, lengths_k=0, options={"sink": True}),
}  # fmt: skip


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return together(2, tmp_path_factory.mktemp("two"), TWO, mistakes=True)


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return together(4, tmp_path_factory.mktemp("four"), FOUR)


@pytest.fixture(scope="module")
def of_three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return together(3, tmp_path_factory.mktemp("three"), WIDER)


def check(case: Case, name: str, results: list[dict[str, Any]]) -> None:
    """Every rank has the same whole result, and it is near float64 and one process."""
    members = range(len(results)) if case.members is None else case.members
    whole = [results[rank][name] for rank in members]
    out, lse = whole[0]
    assert all(torch.equal(out, o) and torch.equal(lse, x) for o, x in whole)
    options = {n: x for n, x in case.whole().items() if n != "unchecked"}
    compare(out, lse, case.tensors(), **options).check()
    exact, exact_lse = case.alone()
    torch.testing.assert_close(lse, exact_lse, rtol=1e-5, atol=1e-4)
    # Both round to bfloat16; the parts were rounded once more.
    largest = float(exact.abs().amax()) if exact.numel() else 0.0
    torch.testing.assert_close(out, exact, rtol=2**-6, atol=2**-8 * largest)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWO)
def test_two_ranks(name: str, of_two: list[dict[str, Any]]) -> None:
    check(TWO[name], name, of_two)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR)
def test_four_ranks(name: str, of_four: list[dict[str, Any]]) -> None:
    check(FOUR[name], name, of_four)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WIDER)
def test_three_ranks(name: str, of_three: list[dict[str, Any]]) -> None:
    check(WIDER[name], name, of_three)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gathered", "ragged, gathered"])
def test_gathered_keys_give_the_bits_of_one_process(
    name: str, of_two: list[dict[str, Any]]
) -> None:
    """Chunks have more than 64 rows: of fewer, lanes would hold copies."""
    out, lse = of_two[0][name]
    exact, exact_lse = TWO[name].alone()
    assert torch.equal(out, exact)
    assert torch.equal(lse, exact_lse)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ("_wrong_heads", r"q without its rows: \(2, 2, 64\) on rank 0, and \(2, 1, 64\) on rank 1"),
        ("_wrong_rows", r"q: rank 0 holds 5 rows, and its share of 8 rows on 2 ranks .* is 4"),
        ("_two_windows", r"window: \(7, 0\) on rank 0, and \(8, 0\) on rank 1 of the group"),
        ("_rows_of_no_shard", r"tensor: rank 0 holds 3 rows, and its share of 8 rows .* is 4"),
    ],
)
def test_every_rank_gets_the_sentence(
    mistake: str, sentence: str, of_two: list[dict[str, Any]]
) -> None:
    messages = [found[mistake] for found in of_two]
    assert messages[0] == messages[1]
    assert messages[0].startswith("ValueError: ")
    with pytest.raises(ValueError, match=sentence):
        raise ValueError(messages[0])


@pytest.mark.slow
def test_a_refusal_of_one_rank_reaches_the_others(of_two: list[dict[str, Any]]) -> None:
    first, second = (found["_one_mask"] for found in of_two)
    assert second.startswith("NotImplementedError: mask=chunked_4: only masks that are one window")
    kind, _, sentence = second.partition(": ")
    assert first == f"{kind}: rank 1 of the group refused its call: {sentence}"


@pytest.mark.parametrize("case", [TWO["dense"], TWO["ragged"], FOUR["dense"]])
@pytest.mark.usefixtures("alone")
def test_one_rank_is_a_plain_call(case: Case) -> None:
    out, lse = case.on_ranks(None)
    exact, exact_lse = case.alone()
    assert torch.equal(out, exact)
    assert torch.equal(lse, exact_lse)


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_without_lse_only_o_is_returned() -> None:
    q, k, v = Case(8).tensors()
    out = distributed.context_parallel_attn(q, k, v, causal=True)
    assert isinstance(out, torch.Tensor)
    assert out.shape == q.shape
