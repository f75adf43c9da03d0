"""Faults that no test saw: what would show each of them, in every kernel that could have it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from sm100sim.options import run_options
from testing.arguments import Builder
from testing.cases import KERNELS, Case
from testing.probes import UNWRITTEN, check, tight, unwritten_outputs
from testing.reference.attention import compare
from testing.runner import CHECKS
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

TILES = (63, 64, 65)
"""A tile of 128 rows holds 64 positions of two heads."""
PACKED = {**dict.fromkeys(KERNELS, ()), "one Q tile in a cluster": ("cluster",)}


def case_of(name: str, *features: str, **fields: Any) -> Case:
    """A case of one of the kernels, with one head of keys for two of queries."""
    head_dim, num_qo, pair_cta, _ = KERNELS[name.removesuffix(" in a cluster")]
    fields = {"heads": 2, "kv_heads": 1, "num_qo": num_qo, "pair_cta": pair_cta, **fields}
    return Case(frozenset(features), head_dim, **fields)


def usual(*rows: Any, more: tuple[Any, ...] = ()) -> list[Any]:
    """Return parameters; those of ``more`` only widen the search."""
    return [*rows, *also(*more)]


OTHERS = (("one Q tile",), ("two Q tiles per CTA of a pair",))
FAMILIES = usual("two Q tiles", "CTA pair", more=OTHERS)
"""The kernels; those of one family have the code at fault in common."""
TWO_Q = usual("two Q tiles", more=(("CTA pair",), *OTHERS))
PAIR = usual("CTA pair", more=(("two Q tiles",), *OTHERS))
"""One family in every run: the code at fault is that of both."""


def spelt(name: str) -> str:
    """A name in a test's identifier, without blanks."""
    return str(name).replace(" ", "-")


@pytest.mark.parametrize("name", [*FAMILIES, "one Q tile in a cluster"], ids=spelt)
def test_a_box_never_reaches_the_rows_after_its_sequence(name: str) -> None:
    """The rows after the last sequence belong to nobody: a CTA that runs later repairs others."""
    for queries in TILES:
        lengths = ((5, 40), (queries, 130), (9, 20))
        case = case_of(name, "ragged", "causal", *PACKED[name], lengths=lengths)
        builder = Builder(case)
        q, k, v = builder.inputs()
        options = builder.options
        for offsets in ("cu_seqlens_q", "cu_seqlens_k"):
            options[offsets] = options[offsets][:-1].contiguous()
        end = int(options["cu_seqlens_q"][-1])
        sizes: dict[str, Any] = {"max_seqlen_q": queries, "max_seqlen_k": 130, "unchecked": True}
        with unwritten_outputs(), run_options(checks=CHECKS):
            out, lse = fa4_cute.flash_attn_varlen(q, k, v, return_lse=True, **options, **sizes)
        compare(out[:end], lse[:, :end], (q[:end], k, v), **options).check()
        assert bool((out[end:].contiguous().view(torch.uint8) == UNWRITTEN).all()), queries
        assert bool(lse[:, end:].isnan().all()), queries


@pytest.mark.parametrize("name", TWO_Q, ids=spelt)
def test_neighbours_of_packed_sequences_stay_exact(name: str) -> None:
    """With few CTAs the first rows of a sequence are written before the last of the one before."""
    lengths = tuple((n, 20) for n in (*TILES, 127, 128, 129, 255, 1))
    check(case_of(name, "ragged", "causal", "persistent", lengths=lengths))


@pytest.mark.parametrize("size", usual("page16", more=(("page64",),)))
@pytest.mark.parametrize("name", PAIR, ids=spelt)
def test_a_page_table_ends_with_the_last_page_in_use(name: str, size: str) -> None:
    """The longest sequence is the last one, fills its last page, and ends within a key tile."""
    case = case_of(name, "ragged", size, lengths=((3, 33), (20, 192)))
    options = tight(case)
    assert options["page_table"].shape[1] == 192 // case.page_size
    check(case, **options)


@pytest.mark.parametrize("pages", usual((), more=((("page16",),),)))
@pytest.mark.parametrize("name", PAIR, ids=spelt)
def test_scales_per_token_of_sequences_without_queries(name: str, pages: tuple[str, ...]) -> None:
    """An empty first sequence has no query whose scale could be read, nor one before it."""
    lengths = ((0, 20), (3, 133), (0, 40), (17, 7), (0, 9))
    check(case_of(name, "ragged", "tokens", *pages, lengths=lengths))


@pytest.mark.parametrize("name", TWO_Q, ids=spelt)
def test_rows_whose_every_score_is_very_low_keep_their_mean(name: str) -> None:
    """By a bias; by the scale; and by queries and keys, where the scale is small."""
    lengths = ((40, 200),)
    low: dict[str, Any] = {"mask": masks.bias(torch.full((1, 1, 40, 200), -400.0))}
    assert check(case_of(name, lengths=lengths), **low).lse.max() < -380
    case = case_of(name, lengths=lengths)
    for factor in (1.0, 10.0):
        q, k, v = Builder(case).inputs()
        q, k = q.abs() * factor, -k.abs() * factor
        scale = 1e4 / (factor**2 * 0.64 * case.head_dim)
        with unwritten_outputs(), run_options(checks=CHECKS):
            out, lse = fa4_cute.flash_attn(
                q, k, v, softmax_scale=scale, return_lse=True, num_qo=case.num_qo,
                pair_cta=case.pair_cta,
            )
        assert -2e4 < lse.min() < lse.max() < -1e3
        compare(out, lse, (q, k, v), softmax_scale=scale).check()


@pytest.mark.parametrize(
    ("name", "mask"),
    usual(
        ("two Q tiles", "causal"),
        ("two Q tiles", "window"),
        more=(
            ("CTA pair", "causal"),
            ("one Q tile", "causal"),
            ("two Q tiles per CTA of a pair", "window"),
        ),
    ),
    ids=spelt,
)
def test_every_remainder_of_the_distance_between_first_query_and_first_key(
    name: str, mask: str
) -> None:
    """Whether a warp sees all of 32 columns is decided by the remainder by 32."""
    lengths = tuple((33, 95 + n) for n in range(32))
    check(case_of(name, "ragged", mask, lengths=lengths, heads=1))
