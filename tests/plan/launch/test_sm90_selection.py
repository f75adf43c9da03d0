"""Tiles and splits of the Hopper kernel, by sizes: the rules, and the model that they ask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.sm90_selection import (
    COMBINE_NS,
    SPLIT_NS,
    START_NS,
    GridLoad,
    TileKind,
    choose_key_splits,
    choose_scheduler,
    choose_tile,
    evens_out,
    tile_ns,
    visited_key_tiles,
)
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.masks.masks import CAUSAL, NULL, Mask, PaddingMask, SlidingWindowMask
from fa4_cute.plan.spec.combine_spec import MAX_SPLITS
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant

SMS = 132
PAGED = Variant(page_size=16, used_k=True)
WINDOW = SlidingWindowMask(1023, 0)


def few(head_dim: int = 128, group: int = 4, mask: Mask | None = None) -> SM90Spec:
    """Return the kernel for few rows."""
    return wide(head_dim, group, mask).with_few_rows()


def wide(head_dim: int = 128, group: int = 4, mask: Mask | None = None) -> SM90Spec:
    variant = Variant() if mask is None else Variant(mask=mask)
    return SM90Spec.for_attention(DType.BF16, head_dim, group=group, variant=variant)


def step(batch: int, keys: int, queries: int = 1) -> AttentionSizes:
    """Return the sizes of 32 query heads on 8 key/value heads."""
    return AttentionSizes(batch, queries, keys, 32, 8)


@pytest.mark.parametrize(
    ("queries", "group", "few_rows"),
    [(1, 4, True), (16, 4, True), (17, 4, False), (64, 1, True), (65, 1, False), (8, 8, True),
     (21, 3, True), (22, 3, False), (9, 7, True), (1, 128, True)],
)  # fmt: skip
def test_rows_that_fit_one_tile(queries: int, group: int, few_rows: bool) -> None:
    sizes, spec = AttentionSizes(1, queries, 500, group, 1), wide(group=group)
    found = choose_tile(spec, sizes, SMS, asked=None, is_persistent=False)
    assert found.kind is (TileKind.FEW_ROWS if few_rows else TileKind.TABLE)
    assert str(queries * (group if group <= 64 else 1)) in found.text
    assert found.kind.applied(spec).config.few_rows is few_rows
    persistent = choose_tile(spec, sizes, SMS, asked=None, is_persistent=True)
    assert persistent.kind is TileKind.TABLE
    for asked, kind in ((1, TileKind.FEW_ROWS), (2, TileKind.TABLE)):
        said = choose_tile(spec, sizes, SMS, asked=asked, is_persistent=False)
        assert (said.kind, said.reason) == (kind, "as asked for")


RAGGED = Variant(CAUSAL, ragged_q=True, ragged_k=True)


@pytest.mark.parametrize(
    ("spec", "keys", "kind"),
    [
        (wide(), 2048, TileKind.LONG_KEYS),
        (wide(), 2047, TileKind.TABLE),
        (wide(mask=CAUSAL), 2048, TileKind.LONG_KEYS),
        (wide(mask=WINDOW), 4096, TileKind.TABLE),
        (wide(mask=SlidingWindowMask(1534, 0)), 8192, TileKind.TABLE),
        (wide(mask=SlidingWindowMask(1535, 0)), 8192, TileKind.LONG_KEYS),
        (wide(mask=SlidingWindowMask(1000, 535)), 8192, TileKind.LONG_KEYS),
        (wide(mask=SlidingWindowMask(None, 4095)), 8192, TileKind.TABLE),
        (wide(96, mask=SlidingWindowMask(4095, 0)), 8192, TileKind.TABLE),
        (wide(96), 4096, TileKind.TABLE),
        (wide(192), 4096, TileKind.TABLE),
        (SM90Spec.for_attention(DType.BF16, 128, variant=PAGED), 4096, TileKind.TABLE),
    ],
)
def test_many_keys_that_rows_see(spec: SM90Spec, keys: int, kind: TileKind) -> None:
    sizes = step(1, keys, 500)
    found = choose_tile(spec, sizes, SMS, asked=None, is_persistent=False)
    assert found.kind is kind
    tile_keys = found.kind.applied(spec).config.BN
    assert tile_keys == (80 if kind is TileKind.LONG_KEYS else spec.config.BN)
    assert choose_tile(spec, sizes, SMS, asked=2, is_persistent=False).kind is TileKind.TABLE


@pytest.mark.parametrize(
    ("mask", "keys", "kind", "scheduler"),
    [
        (None, 2047, TileKind.TABLE, Scheduler.PERSISTENT),
        (None, 2048, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
        (None, 4096, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
        (None, 4097, TileKind.LONG_KEYS, Scheduler.TILE),
        (CAUSAL, 2047, TileKind.TABLE, Scheduler.PERSISTENT),
        (CAUSAL, 2048, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
        (CAUSAL, 4096, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
        (CAUSAL, 4097, TileKind.LONG_KEYS, Scheduler.TILE),
        (WINDOW, 16384, TileKind.TABLE, Scheduler.PERSISTENT),
        (SlidingWindowMask(1535, 0), 16384, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
        (SlidingWindowMask(8191, 0), 16384, TileKind.LONG_KEYS, Scheduler.PERSISTENT),
    ],
)
def test_the_tile_for_many_keys_beside_persistent_ctas(
    mask: Mask | None, keys: int, kind: TileKind, scheduler: Scheduler
) -> None:
    spec, sizes = wide(group=1, mask=mask), AttentionSizes(8, keys, keys, 16, 16)
    assert choose_tile(spec, sizes, SMS, asked=None, is_persistent=False).kind is kind
    assert choose_scheduler(spec, sizes, SMS, kind) is scheduler
    config = kind.applied(wide(group=1, mask=mask)).config
    assert config.num_consumers == (3 if kind is TileKind.LONG_KEYS else 2)


ALL_OR_CAUSAL = (NULL, CAUSAL)


@pytest.mark.parametrize(
    ("depths", "few", "causal_from", "persistent"),
    [((64, 0), 2047, 2048, (65536, 65536)), ((80, 0), 2047, 128, (8192, 4096)),
     ((128, 0), 2047, 2048, (4096, 4096)), ((192, 128), 2047, 2048, (8192, 0))],
)  # fmt: skip
def test_many_fp8_keys(
    depths: tuple[int, int], few: int, causal_from: int, persistent: tuple[int, int]
) -> None:
    for mask, most, start in zip(ALL_OR_CAUSAL, persistent, (few + 1, causal_from), strict=True):
        made = Variant(mask)
        spec = SM90Spec.for_attention(
            DType.FP8_E4M3, depths[0], variant=made, head_dim_v=depths[1]
        )
        for keys in (128, 1024, 2047, 2048, 4096, 8192, 65536):
            sizes = AttentionSizes(16, max(keys, 500), keys, 32, 32)
            kind = choose_tile(spec, sizes, SMS, asked=None, is_persistent=False).kind
            assert kind is (TileKind.LONG_KEYS if keys >= start else TileKind.TABLE)
            if kind is TileKind.LONG_KEYS:
                found = choose_scheduler(spec, sizes, SMS, kind)
                assert found is (Scheduler.PERSISTENT if keys <= most else Scheduler.TILE)
        assert not SM90Spec.for_attention(
            DType.FP8_E4M3, depths[0], variant=replace(made, token_scales=True),
            head_dim_v=depths[1],
        ).may_take_long_keys  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "keys", "persistent"),
    [
        (wide(64), 65536, True), (wide(40, 1, CAUSAL), 4096, True), (wide(64), 0, False),
        (wide(64, mask=CAUSAL), 16384, True), (wide(64, mask=WINDOW), 65536, True),
        (wide(96), 4096, True), (wide(96), 4097, False), (wide(96, 1, CAUSAL), 4096, True),
        (wide(128), 512, True), (wide(128, mask=WINDOW), 65536, True),
        (wide(192), 512, False), (wide(256), 16384, True), (wide(256), 16385, False),
        (wide(256, mask=CAUSAL), 4097, False),
        (SM90Spec.for_attention(DType.BF16, 192, head_dim_v=128), 4096, True),
        (SM90Spec.for_attention(DType.BF16, 192, head_dim_v=128, causal=True), 2048, True),
        (SM90Spec.for_attention(DType.BF16, 192, head_dim_v=128, causal=True), 2049, False),
        (SM90Spec.for_attention(DType.BF16, 64, variant=RAGGED), 4096, True),
        (SM90Spec.for_attention(DType.BF16, 64, variant=RAGGED), 4097, False),
        (SM90Spec.for_attention(DType.BF16, 128, variant=RAGGED), 512, False),
        (SM90Spec.for_attention(DType.FP8_E4M3, 128), 8192, True),
        (SM90Spec.for_attention(DType.FP8_E4M3, 128), 8193, False),
        (SM90Spec.for_attention(DType.FP8_E4M3, 192), 16384, True),
        (SM90Spec.for_attention(DType.FP8_E4M3, 256, causal=True), 4097, False),
        (SM90Spec.for_attention(DType.FP8_E4M3, 128, variant=RAGGED), 4097, False),
    ],
)  # fmt: skip
def test_ctas_are_persistent_where_the_ends_of_a_query_tile_count(
    spec: SM90Spec, keys: int, persistent: bool
) -> None:
    sizes = AttentionSizes(8, 4096, keys, 32, 32)
    found = choose_scheduler(spec, sizes, SMS, TileKind.TABLE)
    assert found is (Scheduler.PERSISTENT if persistent else Scheduler.TILE)
    assert choose_scheduler(spec, sizes, SMS, TileKind.FEW_ROWS) is Scheduler.TILE


@pytest.mark.parametrize(
    ("mask", "tiles", "heads", "even"),
    [(None, 16, 8, False), (None, 19, 7, True), (WINDOW, 32, 60, True), (WINDOW, 4, 40, False),
     (CAUSAL, 16, 12, False), (CAUSAL, 16, 16, True), (CAUSAL, 64, 16, False),
     (CAUSAL, 64, 32, True)],
)  # fmt: skip
def test_a_fixed_order_is_even_after_enough_rounds(
    mask: Mask | None, tiles: int, heads: int, even: bool
) -> None:
    spec, length = wide(group=1, mask=mask), tiles * 128
    sizes = AttentionSizes(1, length, length, heads, heads)
    keys = 1152 if mask is WINDOW else length
    assert evens_out(spec, sizes, SMS, keys) is even


@pytest.mark.parametrize(
    ("batch", "keys", "splits"),
    [(1, 65536, 16), (4, 65536, 4), (8, 16384, 2), (16, 16384, 1), (64, 4096, 1), (1, 1023, 1),
     (1, 4096, 8)],
)  # fmt: skip
def test_decoding_fills_the_device(batch: int, keys: int, splits: int) -> None:
    found = choose_key_splits(few(), step(batch, keys), SMS)
    assert found.num_splits == splits
    load = GridLoad.of(few(), step(batch, keys), SMS)
    assert load.slots == 2 * SMS
    if splits > 1:
        # As many CTAs as there are SMs, or each would have too few keys.
        assert 0.9 * SMS < load.units * splits <= SMS or keys // splits == 512
        assert load.duration(splits) < load.duration(1)
        assert f"{load.units} CTAs" in found.text


def test_a_prompt_splits_where_its_tiles_leave_sms_idle() -> None:
    assert choose_key_splits(wide(), step(1, 65536, 32), SMS).num_splits == 16
    assert choose_key_splits(wide(), step(1, 65536, 512), SMS).num_splits == 1
    assert choose_key_splits(wide(mask=CAUSAL), step(4, 4096, 4096), SMS).num_splits == 1


def test_a_device_of_fewer_sms_needs_fewer_splits() -> None:
    counts = [choose_key_splits(few(), step(1, 65536), sms).num_splits for sms in (16, 32, 132)]
    assert counts == [4, 8, 16]


def test_splits_are_as_many_as_can_be_combined() -> None:
    one_head = AttentionSizes(1, 1, 2**22, 1, 1)
    assert choose_key_splits(few(group=1), one_head, 1000).num_splits == MAX_SPLITS


@pytest.mark.parametrize("sizes", [step(0, 9000), step(1, 0), step(1, 9000, 0)])
def test_nothing_to_compute_is_not_split(sizes: AttentionSizes) -> None:
    assert choose_key_splits(few(), sizes, SMS).num_splits == 1


@pytest.mark.parametrize(
    ("mask", "queries", "tiles"),
    [
        (None, 1, 1024), (CAUSAL, 1, 1024), (SlidingWindowMask(1023, 0), 1, 16),
        (SlidingWindowMask(1023, 0), 16, 17), (PaddingMask(0), 1, 1024),
    ],
)  # fmt: skip
def test_key_tiles_that_are_visited(mask: Mask | None, queries: int, tiles: int) -> None:
    assert visited_key_tiles(few(mask=mask), step(1, 65536, queries)) == tiles


def test_only_the_last_query_tile_counts() -> None:
    """Its 32 queries see 1055 keys, which lie in nine tiles of 128; all 512 see twelve."""
    window = wide(mask=SlidingWindowMask(1023, 0))
    assert visited_key_tiles(window, step(1, 65536, 512)) == 9


def test_a_window_is_not_split() -> None:
    spec = few(mask=SlidingWindowMask(1023, 0))
    assert choose_key_splits(spec, step(1, 65536), SMS).num_splits == 1


@pytest.mark.parametrize(
    ("head_dim", "page_size", "ns"), [(64, 0, 931), (128, 0, 675), (256, 0, 1094), (128, 64, 675),
                                      (128, 16, 1120)],
)  # fmt: skip
def test_a_tile_takes_as_long_as_measured(head_dim: int, page_size: int, ns: int) -> None:
    """64 CTAs read 2350, 3220 and 4020 GB/s of 32, 32 and 64 KiB tiles; of pages of 16 keys each
    read 29 (an H200): 890, 650, 1040 and 1140 ns."""
    variant = Variant(page_size=page_size, used_k=bool(page_size))
    spec = SM90Spec.for_attention(DType.BF16, head_dim, group=4, variant=variant)
    assert tile_ns(spec.with_few_rows()) == ns


def test_small_pages_need_more_ctas_to_load() -> None:
    spec = SM90Spec.for_attention(DType.BF16, 128, group=4, variant=PAGED).with_few_rows()
    assert choose_key_splits(spec, step(16, 16384), SMS).num_splits == 2


def test_the_model_has_two_limits() -> None:
    load = GridLoad(
        units=8, slots=16, key_tiles=100, tile_ns=1000, memory_ns=0, partial_ns=10
    )
    each = SPLIT_NS + 10
    assert load.duration(1) == START_NS + 100 * 1000
    assert load.duration(2) == START_NS + 50 * 1000 + COMBINE_NS + 2 * each
    assert load.duration(3) == 2 * (START_NS + 34 * 1000) + COMBINE_NS + 3 * each
    bound = replace(load, memory_ns=10**6)
    assert bound.duration(1) == 10**6
    assert bound.duration(2) == 10**6 + COMBINE_NS + 2 * each
