"""Sizes that a problem leaves open: those that stand for all reach the kernels of any."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fa4_cute.host.ask.described import described
from fa4_cute.host.choose.open_sizes import may_differ, open_sizes
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.questions import _all_specs
from fa4_cute.plan.facts.hardware import SM90A, SM100A

DRAWS = 40
TOKENS = 2**19


def kernel(sizes: Any) -> str:
    return require(choose(described(**sizes))).spec.name


def drawn(problem: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return ``problem`` with lengths and a batch as users have them, and other heads."""
    keys = int(2 ** rng.uniform(4, 15))
    heads, group = rng.choice((4, 8, 16, 32)), problem["heads_q"] // problem["heads_k"]
    return {
        **problem, "heads_q": heads, "heads_k": heads // group,
        "seqlen_q": rng.choice((1, 64, keys, keys, keys, keys, keys)), "seqlen_k": keys,
        "batch": max(1, min(int(2 ** rng.uniform(0, 6)), TOKENS // keys)),
    }  # fmt: skip


def test_what_is_given_is_kept() -> None:
    whole = {"head_dim": 64, "seqlen_q": 9, "seqlen_k": 10}
    assert list(open_sizes(whole)) == [whole]
    for name, value in (("seqlen_q", 7), ("seqlen_k", 300), ("batch", 3)):
        sizes = list(open_sizes({"head_dim": 64, name: value}))
        assert {size[name] for size in sizes} == {value}
        assert len(sizes) == len({tuple(size.items()) for size in sizes}) > 10
    assert {size["seqlen_k"] for size in open_sizes({"seqlen_q": 7})} >= {7, 16, 49152}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "fp8_e4m3"])
@pytest.mark.parametrize(
    ("head_dim", "head_dim_v"), [(64, 64), (128, 128), (192, 128), (256, 256)]
)
@pytest.mark.parametrize("group", [1, 4])
def test_kernels_of_sizes_drawn_are_among_them(
    head_dim: int, head_dim_v: int, dtype: str, causal: bool, group: int
) -> None:
    problem = {
        "head_dim": head_dim, "head_dim_v": head_dim_v, "dtype": dtype, "causal": causal,
        "heads_q": 16, "heads_k": 16 // group,
    }  # fmt: skip
    check_drawn(problem)


@pytest.mark.parametrize(("head_dim", "dtype"), [(96, "bf16"), (128, "bf16"), (256, "fp8_e4m3")])
def test_kernels_of_chunks_over_pages_are_among_them(head_dim: int, dtype: str) -> None:
    """At 96 and 128 the room for keys decides, too."""
    problem = {
        "head_dim": head_dim, "dtype": dtype, "causal": True, "heads_q": 16, "heads_k": 4,
        "ragged_q": True, "page_size": 64,
    }  # fmt: skip
    check_drawn(problem)
    whole = {**problem, "batch": 16, "seqlen_q": 2048, "seqlen_k": 2048}
    assert "dynamic" in kernel(whole)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("features", [{"page_size": 64}, {"ragged_k": True}], ids=str)
@pytest.mark.parametrize(
    ("head_dim", "dtype", "arch"),
    [(64, "bf16", SM100A), (128, "bf16", SM100A), (256, "fp8_e4m3", SM100A), (128, "bf16", SM90A)],
)
def test_kernels_of_packed_sequences_that_differ_are_among_them(
    head_dim: int, dtype: str, arch: str, features: dict[str, Any], causal: bool
) -> None:
    problem = {
        "head_dim": head_dim, "dtype": dtype, "causal": causal, "heads_q": 16, "heads_k": 4,
        "ragged_q": True, "arch": arch, **features,
    }  # fmt: skip
    known = {spec.name for spec in _all_specs(problem)}
    rng, by_rows = random.Random(3), 0
    for _ in range(4 * DRAWS):
        sizes = drawn(problem, rng)
        longest, batch = sizes["seqlen_q"], sizes["batch"]
        few, most = longest + batch - 1, longest * batch
        sizes["total_q"] = rng.choice((0, few, rng.randint(few, most), rng.randint(few, most)))
        assert kernel(sizes) in known, sizes
        by_rows += "_rows" in kernel(sizes)
    assert by_rows > DRAWS // 4


def test_sequences_that_do_not_differ_have_no_kernel_by_rows() -> None:
    packed: dict[str, Any] = {"head_dim": 128, "ragged_q": True, "ragged_k": True}
    for more in ({"seqlen_q": 1}, {"batch": 1}, {"seqlen_q": 1, "total_q": 7, "batch": 7}):
        assert not any("_rows" in spec.name for spec in _all_specs({**packed, **more}))
    assert may_differ({**packed, "seqlen_q": 257}, 256)
    assert not may_differ({**packed, "seqlen_q": 256}, 256)
    assert not may_differ({"head_dim": 128}, 256)


def check_drawn(problem: dict[str, Any]) -> None:
    """Check that drawn sizes take kernels that open sizes of a problem take."""
    known = {kernel(sizes) for sizes in open_sizes(problem)}
    rng = random.Random(1)
    for _ in range(DRAWS):
        sizes = drawn(problem, rng)
        assert kernel(sizes) in known, sizes
