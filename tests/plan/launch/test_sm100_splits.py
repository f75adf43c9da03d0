"""Splits of the Blackwell kernels' keys, of decoding steps and of prompts: by predicted cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.launch.sm100_splits import cycles_of_last
from fa4_cute.plan.masks.masks import SlidingWindowMask
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.variant import Partition, Scheduler

STEP = Problem("bf16", 30, 1, 16384, 8, 2, 128, 128)
PROMPT = Problem("bf16", 1, 512, 2048, 16, 16, 128, 128)
"""64 CTAs with one Q tile, on 148 SMs."""
CLUSTER, LAST, WORKSPACE = Partition.CLUSTER, Partition.LAST, Partition.WORKSPACE


def chosen(problem: Problem, **changes: Any) -> Choice:
    return require(choose(replace(problem, **changes)))


def q_tiles(choice: Choice) -> int | None:
    """Return how many Q tiles a CTA has; None for pairs."""
    config = choice.spec.config
    return config.num_qo if isinstance(config, FA4Config) else None


def test_partial_results_of_two_splits_meet_where_it_is_predicted_to_be_sooner() -> None:
    found = chosen(STEP, seqlen_k=8192)
    assert found.num_splits == 2
    assert found.split is not None
    assert found.split.partition is LAST
    assert "cycles in a cluster" in found.split.text
    for asked in (2, 4):
        given = chosen(STEP, features=Features(num_splits=asked))
        assert given.split is not None
        assert "predicted" not in given.split.text
    few = chosen(STEP, batch=4)
    assert few.num_splits > 2
    assert few.split is not None
    assert few.split.partition is LAST
    assert "cycles by the last CTA" in few.split.text
    # 32 rows a CTA, of 16 splits, are four rounds of its warps.
    group = chosen(STEP, batch=4, num_q_heads=64)
    assert group.split is not None
    assert group.split.partition is WORKSPACE
    # In a cluster each CTA moves as much for one row as for all.
    many = chosen(STEP, num_q_heads=128, seqlen_k=4096)
    assert many.num_splits == 2
    assert many.split is not None
    assert many.split.partition is CLUSTER
    close = chosen(STEP, batch=25, num_q_heads=128)
    assert close.split is not None
    assert close.split.partition is WORKSPACE
    assert "116,031 cycles in a cluster (74 at once), 123,315 by the last" in close.split.text
    margin = "; a cluster wins only by more than 5 % (of medians of draws)"
    assert close.split.text.endswith(margin)
    assert margin not in many.split.text


@pytest.mark.parametrize(
    ("units", "head_dim", "keys", "splits"),
    # 48 fill 148 SMs with three splits, which the last CTA joins; 320 are three rounds, and so few
    # that memory is the limit in all
    [(48, 128, 4096, 3), (320, 64, 16384, 1), (16, 128, 16384, 9), (256, 64, 8192, 1)],
)
def test_few_splits_are_tried_that_do_not_fill_all_sms(
    units: int, head_dim: int, keys: int, splits: int
) -> None:
    step = Problem("bf16", units, 1, keys, 4, 1, head_dim, head_dim)
    assert chosen(step).num_splits == splits


@pytest.mark.parametrize(
    ("changes", "count", "where"),
    [
        ({}, 2, CLUSTER),
        ({"causal": True, "return_lse": True}, 2, CLUSTER),
        ({"head_dim": 64, "head_dim_v": 64}, 2, CLUSTER),
        # 16 clusters of eight do not run at once on a B200; 15 do.
        ({"num_q_heads": 4, "num_kv_heads": 4, "seqlen_k": 8192}, 8, WORKSPACE),
        ({"num_q_heads": 3, "num_kv_heads": 3, "seqlen_k": 8192}, 8, CLUSTER),
        # Nor do 36 of four; 32 do.
        ({"num_kv_heads": 4, "seqlen_q": 256, "seqlen_k": 4096}, 4, CLUSTER),
        ({"num_q_heads": 9, "num_kv_heads": 9, "seqlen_k": 4096}, 4, WORKSPACE),
        ({"num_q_heads": 8, "num_kv_heads": 8, "seqlen_k": 4096}, 4, CLUSTER),
    ],
)
def test_prompts_of_few_ctas_are_split(
    changes: dict[str, Any], count: int, where: Partition
) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.spec.variant.partition) == (count, where)
    assert found.query_tiles is not None
    assert "one Q tile per CTA" in found.query_tiles.text
    assert found.spec.variant.scheduler is Scheduler.TILE
    assert found.key_splits is not None
    assert f"{count} times as many" in found.key_splits.text


@pytest.mark.parametrize(
    "changes",
    [
        {"seqlen_k": 1023},
        {"batch": 2},
        {"batch": 4},
        {"num_qo": 1},
        {"features": Features(num_splits=1)},
        {"features": Features(ragged_q=True, ragged_k=True)},
        {"features": Features(scheduler=Scheduler.PERSISTENT)},
        {"features": Features(mask=SlidingWindowMask(1023, 0))},
        {"pair_cta": True},
        {"num_q_heads": 148, "num_kv_heads": 148},
    ],
)
def test_other_prompts_are_whole(changes: dict[str, Any]) -> None:
    found = chosen(PROMPT, **changes)
    assert (found.num_splits, found.split) == (1, None)
    assert not found.spec.variant.splits_keys


CHUNK = Problem(
    "bf16", 1, 512, 16384, 8, 1, 128, 128, causal=True,
    features=Features(used_k=True, page_size=64, ragged_q=True),
)  # fmt: skip
"""32 CTAs with one Q tile, on 148 SMs, or 16 with two."""


@pytest.mark.parametrize(
    ("changes", "num_qo", "count", "where"),
    [
        ({}, 1, 4, WORKSPACE),
        ({"features": Features()}, 1, 4, WORKSPACE),
        ({"dtype": "fp8_e4m3"}, 1, 4, WORKSPACE),
        ({"head_dim": 64, "head_dim_v": 64}, 1, 4, CLUSTER),
        ({"head_dim": 192}, 1, 4, WORKSPACE),
        ({"head_dim": 192, "dtype": "fp8_e4m3"}, 1, 4, WORKSPACE),
        ({"head_dim": 256, "head_dim_v": 256}, None, 4, WORKSPACE),
        ({"head_dim": 512, "head_dim_v": 512}, None, 2, WORKSPACE),
        ({"seqlen_q": 1024}, 1, 2, CLUSTER),
        ({"seqlen_q": 1152, "seqlen_k": 32768}, 2, 4, WORKSPACE),
        (
            {"features": Features(used_k=True, score_mod=ScoreMod("cap", "digest"), sink=True)},
            1, 4, WORKSPACE,
        ),
        # Boxes of pages of 16 come no sooner than they are asked for: two Q tiles read them once.
        ({"features": Features(used_k=True, page_size=16, ragged_q=True)}, 2, 9, WORKSPACE),
        ({"features": Features(used_k=True, page_size=32, ragged_q=True)}, 1, 4, WORKSPACE),
    ],
)  # fmt: skip
def test_chunks_of_prompts_over_a_cache_are_split(
    changes: dict[str, Any], num_qo: int | None, count: int, where: Partition
) -> None:
    found = chosen(CHUNK, **changes)
    assert (q_tiles(found), found.num_splits) == (num_qo, count)
    assert found.spec.variant.partition is where


def test_q_tiles_of_split_prompts_are_chosen_with_their_splits() -> None:
    many = {"seqlen_q": 1152, "seqlen_k": 32768}
    found = chosen(CHUNK, **many)
    assert found.query_tiles is not None
    assert found.query_tiles.text.startswith(
        "two Q tiles per CTA: predicted for a B200 with split keys are "
    )
    # Whole, as many rows give more SMs work with one Q tile to a CTA.
    whole = chosen(CHUNK, features=replace(CHUNK.features, num_splits=1), **many)
    assert (q_tiles(whole), whole.num_splits) == (1, 1)
    # A few splits of one Q tile meet in a cluster, those of two in a workspace only.
    assert q_tiles(chosen(PROMPT)) == 1
    for asked in (1, 2):
        assert chosen(CHUNK, num_qo=asked, **many).num_splits == 1


@pytest.mark.parametrize("dtype", ["bf16", "fp8_e4m3"])
def test_few_queries_beside_rope_columns_are_split_like_steps(dtype: str) -> None:
    """Two query tiles of four heads each, of 64 queries: 8 CTAs, where lengths are open, too."""
    few = replace(STEP, batch=1, seqlen_q=64, num_q_heads=16, num_kv_heads=4, dtype=dtype)
    for features in (Features(), Features(used_k=True, page_size=64, ragged_q=True)):
        found = chosen(few, head_dim=192, features=features)
        assert (found.num_splits, found.spec.config.BM_eff()) == (16, 32)


MODIFIED = ScoreMod("soft cap", "digest")


@pytest.mark.parametrize(
    ("changes", "count", "where"),
    [
        ({"dtype": "fp8_e4m3"}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 64, "head_dim_v": 64}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 96, "head_dim_v": 96}, 9, LAST),
        ({"dtype": "fp8_e4m3", "head_dim": 192}, 9, LAST),
        ({"head_dim": 192}, 9, LAST),
        ({"head_dim": 256, "head_dim_v": 256}, 4, WORKSPACE),
        ({"dtype": "fp8_e4m3", "head_dim": 256, "head_dim_v": 256}, 4, WORKSPACE),
        ({"head_dim": 512, "head_dim_v": 512}, 4, WORKSPACE),
        ({"dtype": "fp8_e4m3", "head_dim": 512, "head_dim_v": 512}, 4, WORKSPACE),
    ],
)
def test_steps_of_other_kernels_are_split(
    changes: dict[str, Any], count: int, where: Partition
) -> None:
    found = chosen(STEP, batch=8, **changes)
    assert (found.num_splits, found.spec.variant.partition) == (count, where)
    assert chosen(STEP, batch=8, seqlen_k=128, **changes).num_splits == 1
    assert chosen(STEP, batch=74, seqlen_k=2048, **changes).num_splits == 1


def test_changes_of_scores_leave_the_choice_as_it_is_and_explain_says_so() -> None:
    plain = chosen(STEP, batch=4)
    for features in (Features(score_mod=MODIFIED), Features(sink=True)):
        found = chosen(STEP, batch=4, features=features)
        assert found.num_splits == plain.num_splits > 2
        assert found.key_splits is not None
        assert "of scores that nothing changes" in found.key_splits.text
        assert chosen(PROMPT, features=features).num_splits == chosen(PROMPT).num_splits == 2
    assert plain.key_splits is not None
    assert "nothing changes" not in plain.key_splits.text


def test_explain_says_why_fewer_cycles_do_not_win() -> None:
    found = chosen(STEP, batch=12, seqlen_k=16384)
    assert found.key_splits is not None
    text = found.key_splits.text
    assert found.num_splits == 6
    assert text.endswith(
        "; within 5 % a number wins that gives all SMs as many CTAs (of medians of draws)"
    )
    two = chosen(STEP).key_splits
    assert two is not None
    assert "within 5 %" not in two.text
    assert two.text.endswith(" (of medians of draws)")


def test_whole_keys_say_by_how_much_splits_would_have_to_win() -> None:
    for prompt, told in (
        ({"heads_q": 4, "seqlen_q": 64, "seqlen_k": 1536, "dtype": "fp8_e4m3"},
         "15,575 cycles with 4 CTAs, 15,295 with 4 times as many; more CTAs win only by more than "
         "5 % (of medians of draws)"),
        ({"heads_q": 4, "batch": 37, "seqlen_k": 128 * 64, "seqlen_q": 1}, ", and no fewer with"),
    ):  # fmt: skip
        assert told in fa4_cute.explain(head_dim=64, **prompt)


def test_ctas_of_pairs_are_counted_one_by_one() -> None:
    found = chosen(STEP, batch=4, head_dim=256, head_dim_v=256)
    assert found.key_splits is not None
    assert "cycles with 16 CTAs, " in found.key_splits.text


def test_explain_says_what_both_are_predicted_to_take() -> None:
    text = fa4_cute.explain(
        head_dim=128, seqlen_q=512, seqlen_k=2048, heads_q=16, heads_k=16, num_qo=None
    )
    assert "2 splits of the keys: predicted for a B200 are" in text
    assert "cycles with 64 CTAs" in text
    assert "times as many" in text
    assert "keys split in 2, joined in a cluster: predicted for a B200" in text
    assert "cycles in a cluster (74 at once), " in text
    whole = fa4_cute.explain(head_dim=128, seqlen_q=1024, seqlen_k=2048, heads_q=16, heads_k=16)
    assert "1 split of the keys: predicted for a B200 are" in whole


def test_who_fixes_the_query_tiles_gets_the_bits_of_any_batch() -> None:
    for problem in (STEP, PROMPT):
        specs = {chosen(problem, num_qo=1, batch=batch).spec for batch in (1, 4, 60)}
        assert len({spec.variant.partition for spec in specs}) == 1


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"seqlen_k": 128}, 1),
        ({"seqlen_k": 256}, 1),
        ({"seqlen_k": 512}, 1),
        ({"seqlen_k": 1024}, 4),
        ({"seqlen_k": 2048}, 16),
        ({"seqlen_k": 4096}, 16),
        ({"seqlen_k": 8192}, 32),
        ({"seqlen_k": 2048, "batch": 37}, 1),
        ({"seqlen_k": 2048, "batch": 30}, 2),
        ({"seqlen_k": 2048, "batch": 74}, 1),
    ],
)
def test_ctas_of_few_keys_are_predicted_as_well(changes: dict[str, Any], count: int) -> None:
    """Parts of 128 to 512 keys, where a rule left 1,024 or more."""
    features = Features(used_k=True, page_size=64, scheduler=Scheduler.TILE)
    found = chosen(STEP, **{"batch": 1, "num_kv_heads": 2, "features": features, **changes})
    assert found.num_splits == count
    fixed = replace(features, num_splits=2)
    assert chosen(STEP, **{"batch": 1, "features": fixed, **changes}).num_splits == 2


def test_many_splits_of_a_pair_pay() -> None:
    """A combining launch waits once for the loads of 20 splits, as with narrow heads."""
    for head_dim, count in ((256, 16), (512, 8)):
        dims = {"head_dim": head_dim, "head_dim_v": head_dim}
        assert chosen(STEP, batch=1, seqlen_k=2048, **dims).num_splits == count
        assert chosen(STEP, batch=1, seqlen_k=4096, **dims).num_splits == 16


def test_the_last_cta_of_a_query_tile_joins_as_many_parts_as_stream_k_makes_of_it() -> None:
    paged = Features(used_k=True, page_size=64)
    step = replace(STEP, batch=32, seqlen_k=32768, features=paged)
    found = chosen(step)
    assert found.spec.variant.scheduler is Scheduler.STREAM_K

    def joined(*lengths: int) -> int:
        spec: Any = found.spec
        return cycles_of_last(spec, step.sizes, found.num_splits, 148, lengths)

    def of_splits(count: int) -> int:
        spec: Any = chosen(step, features=replace(paged, num_splits=count, split=LAST)).spec
        return cycles_of_last(spec, step.sizes, count, 148)

    # 64 query tiles of 256 key tiles, in 148 stretches of 113: three or four parts
    assert joined() == joined(*[32768] * 32) == of_splits(4) > 0
    # stretches of 37 places
    assert joined(*[32768] * 2, *[4096] * 30) == of_splits(9) > joined()
    assert joined(*[128] * 32) == 0
