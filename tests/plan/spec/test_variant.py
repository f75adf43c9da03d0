"""What a kernel is specialised on: its parameters, its name, and what it refuses."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.masks.masks import (
    CAUSAL,
    NULL,
    ChunkedMask,
    DenseBiasMask,
    Mask,
    PaddingMask,
    SlidingWindowMask,
    terms,
)
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.variant import (
    FIRST_STEP,
    KEPT,
    PAGE_SIZES,
    WORK_COUNTS,
    Partition,
    Scheduler,
    Variant,
)
from tests.plan.mask_cases import trees, with_bias

MOD = ScoreMod("tilt", "abc", (1, 3))
page_sizes = st.sampled_from([0, *PAGE_SIZES])


def is_possible(mask: Mask) -> bool:
    """Return whether ``mask`` is a union of no more intervals than a kernel takes."""
    try:
        return bool(terms(mask))
    except NotImplementedError:
        return False


@st.composite
def variants(draw: st.DrawFn) -> Variant:
    """Any combination that means something."""
    page_size = draw(page_sizes)
    partition = draw(st.sampled_from(Partition))
    in_cluster = partition is Partition.CLUSTER
    of_one_tile = partition in (Partition.CLUSTER, Partition.LAST)
    ragged_q = draw(st.booleans())
    by_rows = ragged_q and draw(st.booleans())
    in_line = partition is Partition.NONE and not by_rows
    schedulers = [s for s in Scheduler if s is not Scheduler.STREAM_K or in_line]
    return Variant(
        mask=draw(trees(with_bias).filter(is_possible)),
        return_lse=draw(st.booleans()),
        score_mod=draw(st.sampled_from([None, MOD, ScoreMod("cap", "x")])),
        sink=draw(st.booleans()),
        ragged_q=ragged_q,
        ragged_k=not page_size and draw(st.booleans()),
        used_k=bool(page_size) or draw(st.booleans()),
        page_size=page_size,
        partition=partition,
        scheduler=Scheduler.TILE if of_one_tile else draw(st.sampled_from(schedulers)),
        num_partitions=draw(st.integers(2, 8)) if in_cluster else 1,
        token_scales=draw(st.booleans()),
        by_rows=by_rows,
    )


def test_nothing_costs_nothing() -> None:
    plain = Variant()
    assert plain.params == KERNEL_PARAMS
    assert plain.extra_names == ()
    assert plain.name_parts == ()
    features = ("modifies_scores", "partial_values", "longest_first")
    assert not any(getattr(plain, feature) for feature in features)
    assert Variant(CAUSAL).params == KERNEL_PARAMS
    assert Variant(CAUSAL).causal
    assert Variant(CAUSAL).longest_first


@pytest.mark.slow
@settings(deadline=None)
@given(variants())
def test_parameters_follow_those_of_every_kernel(variant: Variant) -> None:
    params = variant.params
    assert params.params[: len(KERNEL_PARAMS.params)] == KERNEL_PARAMS.params
    assert params.names[len(KERNEL_PARAMS.names) :] == variant.extra_names
    assert len(set(params.names)) == len(params.names)
    end = 0
    for param in params.params:
        assert param.offset >= end
        assert param.offset % param.align == 0
        end = param.offset + param.size
    # The parameter space of a kernel (PTX ISA, "Kernel Function Parameters").
    assert params.size <= 4352


@pytest.mark.slow
@settings(deadline=None)
@given(variants())
def test_parameters_are_those_of_the_features(variant: Variant) -> None:
    names = set(variant.extra_names)
    assert ("cu_seqlens_q" in names) == ("total_q" in names) == variant.ragged_q
    last = variant.partition is Partition.LAST
    assert ("o" in names) == (variant.ragged_q or variant.is_persistent or last)
    streams = variant.scheduler is Scheduler.STREAM_K
    assert (set(WORK_COUNTS) <= names) == (variant.is_persistent and not streams)
    assert (FIRST_STEP in names) == variant.by_rows
    assert ("num_sequences" in names) == (variant.by_rows or variant.is_persistent)
    apart = variant.by_rows or variant.used_k or variant.splits_keys
    keeps = variant.scheduler is Scheduler.DYNAMIC and variant.longest_first and not apart
    assert (KEPT in names) == variant.keeps_short == keeps
    assert ("cu_seqlens_k" in names) == variant.ragged_k
    assert ("seqused_k" in names) == variant.used_k
    assert ("page_table" in names) == ("pages_per_row" in names) == bool(variant.page_size)
    assert ("sink" in names) == variant.sink
    assert ({"q_scale", "k_scale", "k_scale_row"} <= names) == variant.token_scales
    assert {n for n in names if n.startswith("padding")} == {
        f"padding{slot}" for slot in variant.padding_slots
    }
    assert {n for n in names if re.fullmatch(r"bias\d+", n)} == {
        f"bias{slot}" for slot in variant.bias_slots
    }
    assert ("aux1_stride2" in names) == (variant.score_mod == MOD)
    assert ("num_splits" in names) == (variant.partition is Partition.WORKSPACE or last)
    assert ("counters" in names) == ("partial_o" in names and variant.last_joins)
    assert variant.last_joins == (last or streams)


@pytest.mark.slow
@settings(deadline=None)
@given(variants())
def test_every_parameter_can_be_packed(variant: Variant) -> None:
    values: dict[str, bytes | int | float] = {
        p.name: bytes(128) if p.kind == "tensor_map" else 7 for p in variant.params.params
    }
    packed = variant.params.pack(values)
    assert [len(value) for value in packed] == [p.size for p in variant.params.params]
    if variant.sink:
        assert packed[variant.params.names.index("sink")] == struct.pack("<Q", 7)


@pytest.mark.slow
@settings(deadline=None)
@given(variants(), variants())
def test_equal_variants_have_equal_names(one: Variant, other: Variant) -> None:
    name = "_".join(one.name_parts)
    assert re.fullmatch(r"[a-zA-Z0-9_]*", name)
    assert one == one
    if one == other:
        assert hash(one) == hash(other)
        assert one.name_parts == other.name_parts


def test_a_modifier_is_known_by_name_and_digest() -> None:
    def first() -> None: ...
    def second() -> None: ...

    assert ScoreMod("a", "1", (), first) == ScoreMod("a", "1", (), second)
    assert ScoreMod("a", "1", (), first) != ScoreMod("a", "2", (), first)
    assert ScoreMod("a", "1", (1,)) != ScoreMod("a", "1", (2,))
    assert "first" not in repr(ScoreMod("a", "1", (), first))


@pytest.mark.parametrize(
    ("size", "nearest"), [(8, 16), (20, 16), (40, 32), (96, 64), (300, 256), (512, 256)]
)
def test_pages_that_do_not_exist(size: int, nearest: int) -> None:
    with pytest.raises(ValueError, match=f"page_size={size}.*choice: {nearest}$"):
        Variant(used_k=True, page_size=size)


def test_contradictions() -> None:
    with pytest.raises(ValueError, match="cu_seqlens_k: keys of a paged cache"):
        Variant(ragged_k=True, used_k=True, page_size=16)
    with pytest.raises(ValueError, match="page_table: a paged cache needs seqused_k"):
        Variant(page_size=16)
    cluster = Partition.CLUSTER
    for partition, size in ((cluster, 1), (Partition.WORKSPACE, 2), (Partition.NONE, 2)):
        with pytest.raises(ValueError, match=f"num_partitions={size}: a cluster that shares"):
            Variant(partition=partition, num_partitions=size)
    for kind in (Scheduler.PERSISTENT, Scheduler.DYNAMIC):
        name = kind.name.lower()
        with pytest.raises(ValueError, match=rf"scheduler='{name}'.*choice: split='workspace'"):
            Variant(scheduler=kind, partition=cluster, num_partitions=2)
        with pytest.raises(ValueError, match=rf"scheduler='{name}': the last CTA.*'workspace'"):
            Variant(scheduler=kind, partition=Partition.LAST)
    for split in (Partition.WORKSPACE, Partition.LAST):
        with pytest.raises(ValueError, match=r"scheduler='stream_k': how many.*num_splits=1"):
            Variant(scheduler=Scheduler.STREAM_K, partition=split)
    with pytest.raises(ValueError, match="by_rows=True: with scheduler='stream_k'"):
        Variant(scheduler=Scheduler.STREAM_K, ragged_q=True, by_rows=True)


def test_splits_are_combined_by_a_second_kernel_or_by_the_last_cta() -> None:
    by_kernel, by_last = (Variant(partition=p) for p in (Partition.WORKSPACE, Partition.LAST))
    assert by_kernel.is_split
    assert by_last.is_split
    assert (by_kernel.is_combined, by_kernel.last_joins) == (True, False)
    assert (by_last.is_combined, by_last.last_joins) == (False, True)
    assert set(by_last.extra_names) - set(by_kernel.extra_names) == {"o", "counters"}
    assert by_last.name_parts == ("last",)


def test_a_cluster_takes_no_parameter_but_a_name() -> None:
    variant = Variant(partition=Partition.CLUSTER, num_partitions=4)
    assert variant.params == KERNEL_PARAMS
    assert variant.name_parts == ("cluster4",)
    assert (variant.in_cluster, variant.is_split, variant.splits_keys) == (True, False, True)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (NULL, False),
        (ChunkedMask(4), False),
        (CAUSAL & ChunkedMask(4), True),
        (PaddingMask(0), False),
        (PaddingMask(0) | CAUSAL, True),
    ],
)
def test_order_of_query_tiles(mask: Mask, expected: bool) -> None:
    assert Variant(mask).longest_first is expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (NULL, False),
        (PaddingMask(0), False),
        (DenseBiasMask(0), False),
        (SlidingWindowMask(9, None), False),
        (SlidingWindowMask(9, 4), True),
        (ChunkedMask(4), True),
        (PaddingMask(0) & CAUSAL, True),
    ],
)
def test_where_the_last_visible_key_depends_on_the_row(mask: Mask, expected: bool) -> None:
    assert Variant(mask).ends_by_row is expected


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (NULL, False),
        (CAUSAL, False),
        (ChunkedMask(4), False),
        (SlidingWindowMask(9, None), True),
        (CAUSAL & SlidingWindowMask(9, 4), True),
        (SlidingWindowMask(9, 4) | PaddingMask(0), False),
        (SlidingWindowMask(9, 4) | SlidingWindowMask(3, 7), True),
    ],
)
def test_where_the_first_visible_key_depends_on_the_row(mask: Mask, expected: bool) -> None:
    assert Variant(mask).starts_by_row is expected


def test_what_scales_scores_first() -> None:
    assert Variant(DenseBiasMask(0) & CAUSAL).modifies_scores
    assert Variant(score_mod=MOD).modifies_scores
    assert not Variant(CAUSAL, sink=True).modifies_scores


def test_names_say_what_is_in() -> None:
    variant = Variant(
        CAUSAL, return_lse=True, score_mod=MOD, sink=True, ragged_q=True, used_k=True, page_size=64
    )
    assert variant.name_parts == ("causal", "tilt", "sink", "varq", "used", "page64", "lse")


def test_a_modifier_without_its_function_is_not_traced() -> None:
    assert ScoreMod("tilt", "abc", function=max).traced is max
    with pytest.raises(ValueError, match="score_mod='tilt' has no function"):
        _ = MOD.traced
