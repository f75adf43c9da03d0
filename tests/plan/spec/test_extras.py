"""The record of the parameters that features add: names, order, and what it lacks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from fa4_cute.plan.masks.masks import DenseBiasMask, PaddingMask
from fa4_cute.plan.spec.extras import ABSENT, Aux, Bias, Extras, PaddingLengths, ScoreMod
from fa4_cute.plan.spec.variant import Partition, Variant
from tests.plan.spec.test_variant import variants

SOME = Extras[int, int, float](
    o=1, sink=2, padding=(PaddingLengths(1, 3),), biases=(Bias(0, 4, (5, 6, 7)),),
    aux=(Aux(0, 8, (9, 10)),), value_scale=0.5,
)  # fmt: skip


def test_names_and_order() -> None:
    assert [name for name, _ in SOME.items()] == [
        "o", "sink", "padding1", "bias0", "bias0_batch", "bias0_head", "bias0_query",
        "aux0", "aux0_stride0", "aux0_stride1", "value_scale",
    ]  # fmt: skip
    assert [value for _, value in SOME.items()] == [*range(1, 11), 0.5]


def test_the_order_is_that_of_the_attributes_not_of_the_call() -> None:
    record = Extras[int, int, float](partial_lse=1, value_scale=2.0, cu_seqlens_q=3)
    assert record.items() == (("cu_seqlens_q", 3), ("partial_lse", 1), ("value_scale", 2.0))


def test_what_a_kernel_lacks_is_no_attribute() -> None:
    assert SOME.sink == 2
    with pytest.raises(AttributeError, match="page_table"):
        SOME.page_table  # noqa: B018
    with pytest.raises(AttributeError, match="sinc"):
        SOME.sinc  # type: ignore[attr-defined]  # noqa: B018  # refused
    with pytest.raises(TypeError, match="sinc"):
        Extras(sinc=1)  # type: ignore[call-arg]  # refused
    assert Extras[int, int, float](sink=ABSENT).items() == ()


@pytest.mark.slow
@settings(deadline=None)
@given(variants())
def test_filled_keeps_names_and_takes_values_in_order(variant: Variant) -> None:
    names = variant.extra_names
    filled = variant.extras.filled(range(len(names)))
    assert filled.items() == tuple((name, i) for i, name in enumerate(names))
    with pytest.raises(ValueError, match="argument 2 is longer"):
        variant.extras.filled(range(len(names) + 1))
    if names:
        with pytest.raises(ValueError, match="argument 2 is shorter"):
            variant.extras.filled(range(len(names) - 1))


def test_filled_gives_arrays_their_own_values() -> None:
    mask = PaddingMask(2) & DenseBiasMask(1)
    variant = Variant(mask=mask, score_mod=ScoreMod("tilt", "abc", (2,)))
    filled = variant.extras.filled("abcdefgh")
    assert filled.padding == (PaddingLengths(2, "a"),)
    assert filled.biases == (Bias(1, "b", ("c", "d", "e")),)
    assert filled.aux == (Aux(0, "f", ("g", "h")),)


def test_matching_takes_what_is_declared_and_misses_nothing() -> None:
    declared = Extras[str, str, str](sink="u64", biases=(Bias(0, "u64", ("u64",) * 3),))
    assert SOME.matching(declared).items() == (
        ("sink", 2), ("bias0", 4), ("bias0_batch", 5), ("bias0_head", 6), ("bias0_query", 7),
    )  # fmt: skip
    with pytest.raises(AttributeError, match="k_scale: the kernel has this parameter"):
        SOME.matching(Extras[str, str, str](sink="u64", k_scale="u64"))


def test_types_are_those_of_the_kernel() -> None:
    variant = Variant(used_k=True, page_size=16, partition=Partition.WORKSPACE)
    assert variant.extras.items() == (
        ("seqused_k", "u64"), ("page_table", "u64"), ("pages_per_row", "u32"),
        ("num_splits", "u32"), ("partial_rows", "u64"), ("partial_o", "u64"),
        ("partial_lse", "u64"),
    )  # fmt: skip
