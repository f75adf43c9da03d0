"""One or two Q tiles per CTA: every row of the table decides something, and says why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.copies import KEYS_OF_COPIES
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM_COUNT
from fa4_cute.plan.launch.selection import (
    QUERY_TILE_RULES,
    RING_TILES,
    Workload,
    choose_query_tiles,
    row_copies_of_pair,
    with_fitting_copies,
    with_row_copies,
)
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.spec import depth512_limits
from fa4_cute.plan.spec.limits import supported


def workload(
    seqlen_q: int, *, heads: int = 1, group: int = 1, batch: int = 1, keys: int = 1024
) -> Workload:
    config = FA4Config.for_attention(DType.BF16, 128, group=group)
    sizes = AttentionSizes(batch, seqlen_q, keys, heads, max(1, heads // group))
    return Workload(config, sizes)


@pytest.mark.parametrize(
    ("work", "rule", "num_qo"),
    [
        # a short prompt takes one Q tile, however full the grid is
        (workload(1, heads=1000, batch=1000), "short prompt", 1),
        (workload(128, heads=1000), "short prompt", 1),
        (workload(129, heads=1000), "full grid", 2),
        (workload(128, heads=1000, keys=1023), "short prompt, few keys", 1),
        # eight heads of a group in one tile leave room for 16 positions
        (workload(16, heads=8000, group=8), "short prompt", 1),
        (workload(17, heads=8000, group=8), "full grid", 2),
        # a group that cannot be packed does not count
        (workload(128, heads=3000, group=3), "short prompt", 1),
        # 74 CTAs of 256 queries are half of 148 SMs
        (workload(256 * 74), "small grid", 1),
        (workload(256 * 74 + 1), "full grid", 2),
        (workload(512, heads=37), "small grid", 1),
        (workload(512, heads=38), "full grid", 2),
        (workload(300, heads=8, group=8, batch=7), "small grid", 1),
        (workload(300, heads=8, group=8, batch=8), "full grid", 2),
        # whoever insists gets it
        (replace(workload(1), asked=2), "two on request", 2),
        (replace(workload(10**5), asked=1), "one on request", 1),
    ],
)
def test_rules(work: Workload, rule: str, num_qo: int) -> None:
    found = next(row for row in QUERY_TILE_RULES if row.applies(work))
    assert (found.name, found.num_qo) == (rule, num_qo)
    choice = choose_query_tiles(work.config, work.sizes, work.asked)
    assert choice.num_qo == num_qo
    assert choice.text.endswith(found.reason(work))


def test_a_short_prompt_is_final_with_many_keys_only() -> None:
    """Fewer have costs of their own, by which two Q tiles may win."""
    many, few = workload(64), workload(64, keys=1023)
    assert choose_query_tiles(many.config, many.sizes).is_final
    assert not choose_query_tiles(few.config, few.sizes).is_final


def test_reasons_name_the_numbers_that_decide() -> None:
    def text(work: Workload) -> str:
        return choose_query_tiles(work.config, work.sizes).text

    assert text(workload(9, group=8, heads=8)) == (
        "one Q tile per CTA: seqlen_q=9 fits one Q tile of 16 positions"
    )
    assert "74 CTAs" in text(workload(256 * 74))
    assert str(SM_COUNT) in text(workload(256 * 74))
    assert text(workload(256 * 80)).startswith("two Q tiles per CTA: 80 CTAs")


def test_a_plan_that_does_not_exist_is_not_chosen() -> None:
    pair = FA4Config(1, 1, 128, 128, pair_cta=True)
    choice = choose_query_tiles(pair, AttentionSizes(1, 1, 1, 1, 1))
    assert choice.num_qo == 2
    assert "as pair_cta=True asks for" in choice.reason


@given(
    depth=st.integers(1, 24).map(lambda n: 8 * n),
    group=st.integers(1, 130),
    seqlen_q=st.integers(1, 10**6),
    kv_heads=st.integers(1, 64),
    batch=st.integers(1, 64),
)
def test_the_choice_is_always_supported(
    depth: int, group: int, seqlen_q: int, kv_heads: int, batch: int
) -> None:
    config = FA4Config.for_attention(DType.FP16, depth, group=group)
    sizes = AttentionSizes(batch, seqlen_q, 1, kv_heads * group, kv_heads)
    assert supported(config.with_num_qo(choose_query_tiles(config, sizes).num_qo))


@pytest.mark.parametrize("group", [1, 8, 64, 128])
def test_long_prompts_fill_the_chip(group: int) -> None:
    work = workload(4 * 256 * SM_COUNT, heads=group, group=group)
    assert choose_query_tiles(work.config, work.sizes).num_qo == 2


@pytest.mark.parametrize(
    ("seqlen_q", "group", "copies"),
    [
        (1, 1, 4), (32, 1, 4), (33, 1, 2), (64, 1, 2), (65, 1, 1),
        (8, 4, 4), (9, 4, 2), (16, 4, 2), (17, 4, 1),
        (1, 32, 4), (2, 32, 2), (1, 64, 2), (1, 128, 1),
        # A group that is no divisor of the rows has a query tile for each head.
        (32, 3, 4), (33, 3, 2),
    ],
)  # fmt: skip
def test_few_rows_have_as_many_copies_as_lanes_hold(seqlen_q: int, group: int, copies: int) -> None:
    work = workload(seqlen_q, heads=group, group=group)
    one = choose_query_tiles(work.config, work.sizes)
    assert one.num_qo == 1
    found = with_row_copies(one, work.config, seqlen_q, KEYS_OF_COPIES)
    assert found.row_copies == copies
    assert (f"{copies} copies" in found.text) == (copies > 1)
    config = replace(work.config.with_num_qo(1), row_copies=copies)
    assert supported(config)
    assert seqlen_q <= config.BM_eff()
    assert config.fuse_gqa == work.config.fuse_gqa


def test_two_q_tiles_have_no_copies() -> None:
    work = workload(1)
    two = choose_query_tiles(work.config, work.sizes, asked=2)
    assert with_row_copies(two, work.config, 1, 1024).row_copies == 1


def test_a_tile_that_does_not_divide_has_no_copies() -> None:
    """Keys of a tile are fewer where scores change and registers are scarce."""
    work = workload(1)
    few = replace(work.config, bn_cap=64)
    one = choose_query_tiles(few, work.sizes)
    assert with_row_copies(one, few, 1, 1024).row_copies == 1


@pytest.mark.parametrize("keys", [64, 128, 192])
def test_no_more_copies_than_the_chosen_kernel_holds(keys: int) -> None:
    """What is chosen after the copies may leave a key tile fewer keys."""
    work = workload(1)
    one = with_row_copies(choose_query_tiles(work.config, work.sizes), work.config, 1, 1024)
    assert one.row_copies == 4
    found = with_fitting_copies(one, replace(work.config.with_num_qo(1), bn_cap=keys))
    assert found == replace(one, row_copies=4 if keys >= KEYS_OF_COPIES else 1)
    assert with_fitting_copies(replace(one, row_copies=2), work.config).row_copies == 2


@pytest.mark.parametrize(
    ("seqlen_q", "group", "copies"),
    [(1, 1, 4), (64, 1, 4), (65, 1, 2), (16, 4, 4), (17, 4, 2), (32, 4, 2), (33, 4, 1), (9, 64, 1)],
)
def test_copies_of_a_pair_hold_the_rows_of_both_ctas(
    seqlen_q: int, group: int, copies: int
) -> None:
    config = Depth512Config.for_attention(DType.FP8_E4M3, 256, group=group)
    assert row_copies_of_pair(config, seqlen_q, KEYS_OF_COPIES) == copies
    few = replace(config, row_copies=copies)
    assert depth512_limits.supported(few)
    assert few.fuse_gqa == config.fuse_gqa
    assert few.num_kv_stages >= RING_TILES * few.slots_per_tile


@pytest.mark.parametrize(("dtype", "depth"), [(DType.BF16, 256), (DType.FP8_E4M3, 512)])
def test_other_pairs_have_no_copies(dtype: DType, depth: int) -> None:
    """No memory is left for what copies leave of O, or no P of lanes of their own."""
    assert row_copies_of_pair(Depth512Config.for_attention(dtype, depth), 1, 1024) == 1


def test_fewer_keys_than_a_tile_are_not_divided() -> None:
    work = workload(1)
    one = choose_query_tiles(work.config, work.sizes)
    assert with_row_copies(one, work.config, 1, KEYS_OF_COPIES - 1).row_copies == 1
    pair = Depth512Config.for_attention(DType.FP8_E4M3, 256)
    assert row_copies_of_pair(pair, 1, KEYS_OF_COPIES - 1) == 1


def test_one_q_tile_where_shared_memory_does_not_hold_two() -> None:
    for seqlen_q in (1, 10**5):
        config = FA4Config.for_attention(DType.BF16, 176, ov_depth=32, num_qo=1)
        choice = choose_query_tiles(config, AttentionSizes(1, seqlen_q, 1, 1, 1))
        assert (choice.num_qo, choice.is_final) == (1, True)
        assert "two Q tiles per CTA are not possible: num_qo=2: shared memory" in choice.text
        assert "nearest supported choice" not in choice.text
