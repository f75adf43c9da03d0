"""How many splits are tried, and workspace, last CTA or cluster: every row decides something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fa4_cute.plan.facts.hardware import SM_COUNT
from fa4_cute.plan.launch.key_splits import KeySplits, split_candidates
from fa4_cute.plan.launch.split_selection import (
    CLUSTER_SIZES,
    SPLIT_RULES,
    SplitWork,
    choose_split,
)
from fa4_cute.plan.spec.variant import Partition

WORK = SplitWork(2, depth=128, num_qo=1)
CLUSTER, LAST, WORKSPACE = Partition.CLUSTER, Partition.LAST, Partition.WORKSPACE


@pytest.mark.parametrize(
    ("work", "rule", "partition"),
    [
        (replace(WORK, num_splits=5, asked=CLUSTER), "cluster on request", CLUSTER),
        (replace(WORK, rows=128, asked=LAST), "last CTA on request", LAST),
        (replace(WORK, rows=4, asked=WORKSPACE), "workspace on request", WORKSPACE),
        (replace(WORK, num_qo=2), "kernel", WORKSPACE),
        (replace(WORK, num_qo=None), "kernel", WORKSPACE),
        (replace(WORK, persistent=True), "kernel", WORKSPACE),
        (replace(WORK, depth=56), "depth", WORKSPACE),
        (replace(WORK, depth=136), "depth", WORKSPACE),
        (replace(WORK, depth=64), "size that fills", CLUSTER),
        (WORK, "size that fills", CLUSTER),
        (replace(WORK, rows=4), "size that fills", CLUSTER),
        (replace(WORK, rows=16, num_splits=4), "few rows", LAST),
        (replace(WORK, rows=16, depth=192), "few rows", LAST),
        (replace(WORK, rows=4, num_qo=2), "kernel", WORKSPACE),
        (replace(WORK, rows=17, num_splits=4), "other sizes", WORKSPACE),
        (replace(WORK, num_splits=4), "other sizes", WORKSPACE),
    ],
)
def test_rules(work: SplitWork, rule: str, partition: Partition) -> None:
    found = next(row for row in SPLIT_RULES if row.applies(work))
    assert (found.name, found.partition) == (rule, partition)
    choice = choose_split(work)
    assert choice.partition is partition
    assert choice.text.endswith(found.reason(work))


def test_reasons_name_the_numbers_that_decide() -> None:
    assert choose_split(WORK).text == (
        f"keys split in 2, joined in a cluster: clusters of 2 fill {SM_COUNT} SMs"
    )
    four = choose_split(replace(WORK, num_splits=4)).text
    assert f"clusters of 4 may fill no more than 132 of {SM_COUNT} SMs" in four
    assert "at most 8 CTAs" in choose_split(replace(WORK, num_splits=9)).text
    assert "head dimension 192" in choose_split(replace(WORK, depth=192)).text
    last = choose_split(replace(WORK, rows=4, num_splits=3)).text
    assert last == (
        "keys split in 3, joined by the last CTA: 4 rows a CTA are not worth a second launch"
    )
    assert "in a workspace" in choose_split(replace(WORK, num_qo=2)).text


def test_only_pairs_leave_no_sm_idle() -> None:
    assert CLUSTER_SIZES == (2,)


def test_every_rule_decides_something() -> None:
    assert len({rule.name for rule in SPLIT_RULES}) == len(SPLIT_RULES)


def test_every_sm_gets_as_many_ctas() -> None:
    assert split_candidates(8, 16, 100) == (1, 2, 4, 6, 8)
    assert split_candidates(8, 16, 5) == (1, 2, 4, 5)
    assert split_candidates(100, 16, 9) == (1,)


def test_the_decision_in_words() -> None:
    assert KeySplits(1, "why").text == "1 split of the keys: why"
    assert KeySplits(3, "why").text == "3 splits of the keys: why"
