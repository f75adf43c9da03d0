"""Synchronisation between the CTAs of a query tile whose last one joins the splits.

Clean in every schedule, and noticed when broken: every fault is planted in the PTX of a clean
kernel. What is read before it was acquired is a race between CTAs (PTX ISA, "Memory Consistency
Model", causality order).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

from fa4_cute.host.run import operands
from fa4_cute.host.run.counters import Counters
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Variant
from testing.arguments import arguments
from testing.cases import Case
from testing.runner import call
from testing.sass import compiled
from testing.watchers import check_schedules, objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

Rewrite = Callable[[str], str]
MUTATED = Case(
    frozenset({"last", "causal"}), 128, heads=4, kv_heads=1, lengths=((3, 700),), num_qo=1,
    num_splits=3,
)  # fmt: skip
"""Six key tiles, and twelve rows: a second one for some warps."""
FULL = frozenset({"last"})
CASES = (
    MUTATED,
    replace(MUTATED, lengths=((3, 300),), num_splits=8),
    replace(MUTATED, lengths=((2, 130), (2, 130)), num_splits=2, features=FULL),
    replace(MUTATED, head_dim=64, heads=8, kv_heads=2, lengths=((40, 500),), num_splits=4),
)
"""Fewer key tiles than splits among them, several query tiles, and many rows."""
STREAMED = Case(
    frozenset({"stream_k", "causal", "cache"}), 128, heads=4, kv_heads=1,
    lengths=((3, 2300), (3, 500)),
)  # fmt: skip
"""The same by stream-K: the first sequence's query tile has two stretches, the second one its own.
"""
PAIRS = Case(
    frozenset({"stream_k", "causal"}), 256, heads=1, kv_heads=1, lengths=((200, 2300),),
)  # fmt: skip
"""The same in pairs, of which both CTAs have rows."""
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"mode": "late"}, *({"mode": "random", "seed": seed} for seed in range(3)),
)  # fmt: skip
COUNT = r"atom\.acq_rel\.gpu\.global\.inc"
WRITTEN = r"bar\.sync\s+(?:5, 256|3, 128);"
"""Of both softmax groups, or of the only one of a CTA of a pair."""


@pytest.mark.parametrize("case", [CASES[0], *also(*CASES[1:], PAIRS)], ids=str)
def test_clean_and_the_same_in_every_schedule(case: Case) -> None:
    check_schedules(arguments(case), schedules=SCHEDULES)


def each(pattern: str, text: str = "") -> Rewrite:
    """Replace every place that fits ``pattern``."""

    def rewrite(ptx: str) -> str:
        changed, count = re.subn(pattern, text, ptx)
        assert count > 0
        return changed

    return rewrite


FAULTS: dict[str, tuple[Rewrite, str]] = {
    "no barrier before the count": (each(WRITTEN), "race-global"),
    "the count orders nothing": (
        each(COUNT, "atom.relaxed.gpu.global.inc"), "race-global",
    ),
    "the count releases nothing": (
        each(COUNT, "atom.acquire.gpu.global.inc"), "race-global",
    ),
    "the count acquires nothing": (
        each(COUNT, "atom.release.gpu.global.inc"), "race-global",
    ),
    "the count is of its cluster": (
        each(COUNT, "atom.acq_rel.cluster.global.inc"), "race-global",
    ),
    "the last but one joins": (
        each(r"(setp\.eq\.and\.b32 found, before), (%r\d+)", r"sub.u32 before, before, -1; \1, \2"),
        "race-global",
    ),
    "the other threads do not wait for the answer": (
        each(
            r"barrier\.cta\.red\.or\.pred\.aligned some, (?:5, 256|3, 128), own;",
            "setp.eq.b32 some, 0, 0;",
        ),
        "race-global",
    ),
}  # fmt: skip


@pytest.mark.parametrize("options", [SCHEDULES[1], *also(SCHEDULES[2])], ids=str)
@pytest.mark.parametrize("case", [MUTATED, STREAMED, PAIRS], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str, case: Case, options: dict[str, Any]) -> None:
    rewrite, expected = FAULTS[fault]
    found = objections(arguments(case), rewrite, **options)
    assert found
    assert any(re.search(expected, text) for text in found), found[0]


def test_launches_share_counters() -> None:
    """They are 0 again after each; where one is not, the next launch writes nothing."""
    memory = torch.zeros(2, dtype=torch.int32)
    shared = Counters(memory.data_ptr(), 2, memory)
    given = arguments(CASES[2])
    with mock.patch.object(operands, "counters_on", return_value=shared):
        first = call(given).results
        for _ in range(2):
            assert not memory.any()
            assert all(map(torch.equal, first, call(given).results))
        memory[1] += 1
        out = call(given).out
    assert torch.equal(first[0][0], out[0])
    assert not torch.equal(first[0][1], out[1])


def test_facts_of_the_text() -> None:
    variant = Variant(partition=Partition.LAST)
    ptx = compiled(KernelSpec.for_attention(DType.BF16, 128, variant=variant)).ptx
    # One for each of the two warp groups.
    assert len(re.findall(COUNT, ptx)) == len(re.findall(WRITTEN, ptx)) == 2
    assert "shared::cluster" not in ptx.replace(".mbarrier::arrive::one.shared::cluster", "")


def test_other_kernels_count_nothing() -> None:
    for variant in (Variant(), Variant(partition=Partition.WORKSPACE)):
        ptx = compiled(KernelSpec.for_attention(DType.BF16, 128, variant=variant, num_qo=1)).ptx
        assert "atom." not in ptx
