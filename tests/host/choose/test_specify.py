"""What follows from sizes: the Hopper kernel for few rows, and splits of keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.masks.masks import SlidingWindowMask
from fa4_cute.plan.spec.variant import Scheduler

STEP = Problem("bf16", 1, 1, 65536, 8, 2, 128, 128, arch="sm_90a")


def decoding(**changes: Any) -> Choice:
    """Return the Hopper kernel of one query over a long cache."""
    return require(choose(replace(STEP, **changes)))


def test_hopper_splits_keys_where_that_is_left_open() -> None:
    found = decoding()
    assert found.num_splits == 66
    assert found.spec.variant.is_split
    assert found.key_splits is not None
    assert "2 CTAs of 1024 key tiles on 132 SMs" in found.key_splits.text
    assert decoding(num_sms=78).num_splits == 39
    fixed = decoding(features=Features(num_splits=1))
    assert (fixed.num_splits, fixed.key_splits) == (1, None)
    assert not fixed.spec.variant.splits_keys
    assert decoding(features=Features(num_splits=3)).num_splits == 3
    text = fa4_cute.explain(
        head_dim=128, heads_q=8, heads_k=2, seqlen_k=65536, seqlen_q=1, arch="sm_90a"
    )
    assert "one Q tile of 64 rows per CTA: 4 rows fit it" in text
    assert "66 splits of the keys: 2 CTAs of 1024 key tiles on 132 SMs would take" in text
    assert "grid (66, 2, 1)" in text


def test_blackwell_splits_keys_where_fewer_cycles_are_predicted() -> None:
    found = decoding(arch="sm_100a")
    assert found.num_splits > 20
    assert found.spec.variant.is_split
    assert found.key_splits is not None
    assert "cycles with 2 CTAs" in found.key_splits.text
    assert f"with {found.num_splits} times as many" in found.key_splits.text
    many = decoding(arch="sm_100a", batch=64)
    assert (many.num_splits, many.spec.variant.splits_keys) == (1, False)
    assert many.key_splits is not None
    two = decoding(arch="sm_100a", batch=30, seqlen_k=8192)
    assert (two.num_splits, two.spec.variant.last_joins) == (2, True)
    rows = decoding(arch="sm_100a", batch=30, seqlen_k=4096, num_q_heads=128)
    assert (rows.num_splits, rows.spec.variant.in_cluster) == (2, True)
    close = decoding(arch="sm_100a", batch=25, seqlen_k=16384, num_q_heads=128)
    assert (close.num_splits, close.spec.variant.is_combined) == (2, True)


def test_blackwell_leaves_other_keys_whole() -> None:
    for change in (
        {"seqlen_k": 128},
        {"seqlen_q": 8192},
        {"num_qo": 1},
        {"num_qo": 2},
        {"features": Features(num_splits=1)},
        {"features": Features(ragged_k=True)},
        {"seqlen_q": 512, "features": Features(mask=SlidingWindowMask(255, 0))},
        {"seqlen_k": 0},
    ):
        found = decoding(**{"arch": "sm_100a", **change})
        assert (found.num_splits, found.key_splits) == (1, None)
        assert not found.spec.variant.splits_keys


@pytest.mark.parametrize(
    ("change", "ctas"),
    [
        ({"seqlen_q": 256, "ragged_k": True}, 32),
        ({"seqlen_q": 256, "ragged_k": True, "dtype": "fp8_e4m3"}, 32),
        ({"seqlen_q": 256, "ragged_k": True, "head_dim": 256}, 32),
    ],
)
def test_explain_says_where_keys_stay_whole_for_want_of_a_prediction(
    change: dict[str, Any], ctas: int
) -> None:
    step = {"head_dim": 128, "heads_q": 8, "heads_k": 2, "seqlen_k": 4096, "batch": 2, **change}
    told = f"keys are whole: {ctas} CTAs leave {148 - ctas} of 148 SMs without work"
    assert told in fa4_cute.explain(**step)
    for other in (
        {"num_splits": 1},
        {"num_qo": 1} if step["head_dim"] < 256 else {"num_splits": 2},
        {"seqlen_k": 2047},
        {"batch": 40},
        {"window_size": (255, 0)},
    ):
        assert "keys are whole" not in fa4_cute.explain(**{**step, **other})


def test_explain_says_nothing_of_whole_keys_where_a_prediction_chose() -> None:
    for arch in ("sm_90a", "sm_100a"):
        for batch in (1, 64):
            text = fa4_cute.explain(
                head_dim=128, heads_q=8, heads_k=2, seqlen_k=4096, batch=batch, arch=arch
            )
            assert "of the keys: " in text
            assert "keys are whole" not in text
    paged = {"softcap": 30.0, "page_size": 64, "batch": 1}
    for other in ({"dtype": "fp8_e4m3"}, {"head_dim": 256}, paged):
        step = {"head_dim": 128, "heads_q": 8, "heads_k": 2, "seqlen_k": 4096, "batch": 2, **other}
        text = fa4_cute.explain(**step)
        assert "splits of the keys: predicted for a B200" in text
        assert "keys are whole" not in text


def test_many_keys_have_a_tile_of_their_own_on_hopper() -> None:
    found = decoding(seqlen_q=4096)
    assert found.spec is decoding(seqlen_q=4096).spec
    assert found.spec.name.startswith("fa4_sm90_bf16_d128_g4_long")
    assert found.query_tiles is not None
    assert "3 Q tiles of many keys per CTA" in found.query_tiles.text
    assert decoding(seqlen_q=4096, causal=True).spec.config.BN == 80
    assert decoding(seqlen_q=4096, num_qo=2).spec.config.BN == 128


def test_few_rows_have_a_kernel_of_their_own_on_hopper() -> None:
    few, many = decoding(seqlen_q=16), decoding(seqlen_q=17)
    assert (few.spec.config.BM, many.spec.config.BM) == (64, 128)
    assert decoding(seqlen_q=16) == few
    assert decoding(seqlen_q=16).spec is few.spec
    assert decoding(num_qo=2).spec.config.BM == 128
    assert decoding(seqlen_q=500, num_qo=1).spec.config.BM == 64
    persistent = Features(scheduler=Scheduler.PERSISTENT)
    assert decoding(features=persistent).spec.config.BM == 128
    narrow = {"head_dim": 64, "head_dim_v": 64}
    assert decoding(**narrow).spec.variant.scheduler is Scheduler.TILE
    # As many query tiles as SMs, or more: only these have persistent CTAs.
    for batch, scheduler in ((66, Scheduler.TILE), (67, Scheduler.PERSISTENT)):
        found = decoding(**narrow, batch=batch, seqlen_q=17, seqlen_k=4096)
        assert found.spec.variant.scheduler is scheduler


def test_who_takes_the_query_tiles_is_left_to_the_kernel() -> None:
    for arch, d, batch in (("sm_90a", 64, 1), ("sm_90a", 64, 64), ("sm_100a", 64, 1)):
        default = Scheduler.PERSISTENT if batch > 1 else Scheduler.TILE
        others = {Scheduler.STREAM_K} | ({Scheduler.DYNAMIC} if arch == "sm_90a" else set())
        schedulers = set(Scheduler) - others
        for asked in (None, *schedulers):
            asking = Features(scheduler=asked)
            posed = Problem("bf16", batch, 128, 128, 4, 2, d, d, arch=arch, features=asking)
            found = require(choose(posed))
            variant = found.spec.variant
            assert variant.scheduler is (asked or default)
            settled = posed.settled(variant, found.num_splits)
            assert settled.variant == variant
            assert settled.settled(variant, 5) is settled


def test_stream_k_has_no_copies_of_few_rows_that_its_key_tiles_do_not_hold() -> None:
    """A function of scores beside scales per token leaves a key tile half of its keys."""
    step: dict[str, Any] = {
        "head_dim": 128, "dtype": "fp8_e4m3", "heads_q": 64, "heads_k": 8, "batch": 16,
        "seqlen_q": 1, "seqlen_k": 4096, "ragged_q": True, "ragged_k": True,
    }  # fmt: skip
    assert "with 4 copies of its few rows" in fa4_cute.can_implement(**step, softcap=30.0).reason
    support = fa4_cute.can_implement(**step, softcap=30.0, token_scales=True)
    assert support, support.reason
    text = fa4_cute.explain(**step, softcap=30.0, token_scales=True)
    assert "stream-K" in text
    assert "copies of its few rows" not in text
    assert "tile 128 x 64" in text


@pytest.mark.parametrize("split", ["cluster", "last"])
def test_splits_that_ctas_join_have_one_q_tile_where_that_is_left_open(split: str) -> None:
    asked: dict[str, Any] = {"head_dim": 128, "heads_q": 8, "seqlen_q": 4096, "num_splits": 4}
    text = fa4_cute.explain(**asked, split=split)
    assert "one Q tile per CTA: " in text
    assert not fa4_cute.can_implement(**asked, split=split, num_qo=2)
    assert "two Q tiles per CTA: " in fa4_cute.explain(**asked, split="workspace")


@pytest.mark.parametrize("num_qo", [None, 1])
def test_narrow_values_have_one_q_tile_where_two_do_not_fit(num_qo: int | None) -> None:
    """Their key tiles are the longer, the narrower V is: shared memory holds too few."""
    for keys in (100, 4096):
        posed = Problem("bf16", 1, keys, keys, 8, 2, 176, 32, num_qo=num_qo, arch="sm_100a")
        config = require(choose(posed)).spec.config
        assert isinstance(config, FA4Config)
        assert config.num_qo == 1
    refused = fa4_cute.can_implement(head_dim=176, head_dim_v=32, num_qo=2)
    assert (bool(refused), refused.nearest) == (False, "num_qo=1")
