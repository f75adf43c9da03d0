"""One or two Q tiles per CTA: every row of the table decides something, and says why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM_COUNT
from fa4_cute.plan.launch.launch import AttentionSizes
from fa4_cute.plan.launch.selection import (
    QUERY_TILE_RULES,
    Workload,
    choose_query_tiles,
)
from fa4_cute.plan.spec.limits import supported


def workload(seqlen_q: int, *, heads: int = 1, group: int = 1, batch: int = 1) -> Workload:
    config = FA4Config.for_attention(DType.BF16, 128, group=group)
    sizes = AttentionSizes(batch, seqlen_q, 1024, heads, max(1, heads // group))
    return Workload(config, sizes)


@pytest.mark.parametrize(
    ("work", "rule", "num_qo"),
    [
        # a short prompt takes one Q tile, however full the grid is
        (workload(1, heads=1000, batch=1000), "short prompt", 1),
        (workload(128, heads=1000), "short prompt", 1),
        (workload(129, heads=1000), "full grid", 2),
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
    assert "not possible" in choice.reason


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
