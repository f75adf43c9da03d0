"""Synchronisation between the CTAs of a cluster: clean in every schedule, and noticed when broken.

Every fault is planted in the PTX of a clean kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

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
    frozenset({"cluster", "causal"}), 128, heads=1, kv_heads=1, lengths=((100, 900),), num_qo=1,
    num_splits=3,
)  # fmt: skip
"""Eight key tiles: 3, 3 and 2, so that both chains of every CTA have some."""
FULL = frozenset({"cluster"})
CASES = (
    MUTATED,
    replace(MUTATED, lengths=((100, 300),), num_splits=8),
    replace(MUTATED, lengths=((100, 130),), num_splits=2, features=FULL),
    replace(MUTATED, head_dim=64, heads=8, lengths=((9, 1000),), num_splits=4),
    replace(MUTATED, head_dim=192, lengths=((100, 700),), num_splits=2, features=FULL),
)
"""More CTAs than key tiles among them, and one key tile for each CTA."""
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"mode": "late"}, *({"mode": "random", "seed": seed} for seed in range(4)),
)  # fmt: skip
BEGIN = r"barrier\.cluster\.arrive\.relaxed\.aligned;(\s*bar\.sync\s+0;\s*)barrier\.cluster\.wait;"
LEAVE = r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait;"
WAIT = (
    r"\{\s*\.reg \.pred done;\s*WAIT_FOR_PHASE:\s*mbarrier\.try_wait\.parity\.acquire\.cluster"
    r".*?PHASE_DONE:\s*\}"
)
ARRIVE = r"@chosen mbarrier\.arrive\.release\.cluster[^;]*;"


@pytest.mark.parametrize(
    "case",
    [CASES[0], *also(*CASES[1:])],
    ids=str,
)
def test_clean_and_the_same_in_every_schedule(case: Case) -> None:
    check_schedules(arguments(case), schedules=SCHEDULES)


def only(pattern: str, which: int, text: str = "") -> Rewrite:
    """Replace one place that fits ``pattern``."""

    def rewrite(ptx: str) -> str:
        found = list(re.finditer(pattern, ptx, re.DOTALL))
        assert len(found) == 2, "one for each warp group"
        match = found[which]
        return ptx[: match.start()] + text + ptx[match.end() :]

    return rewrite


def each(pattern: str, text: str = "") -> Rewrite:
    """Replace every place that fits ``pattern``."""

    def rewrite(ptx: str) -> str:
        changed, count = re.subn(pattern, text, ptx, flags=re.DOTALL)
        assert count > 0
        return changed

    return rewrite


FAULTS: dict[str, tuple[Rewrite, str]] = {
    "no cluster barrier at the start": (each(BEGIN, r"\1"), "mbarrier-init-unordered"),
    "no CTA's barrier at the start": (
        each(BEGIN, "barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait;"),
        "race",
    ),
    "no cluster barrier at the end": (each(LEAVE), "cta-exits-early|has exited"),
    "a cluster barrier at the end that orders nothing": (
        each(LEAVE, "barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait;"),
        "cta-exits-early",
    ),
    "group 0 does not wait": (only(WAIT, 0), "race-shared"),
    "group 1 does not wait": (only(WAIT, 1), "race-shared"),
    "the wait is for the phase before": (
        each(r"(try_wait\.parity\.acquire\.cluster[^;]*\], )%r\d+", r"\g<1>1"),
        # Whoever comes late waits for a phase that never ends.
        "race-shared|deadlock",
    ),
    "count too low": (each(r"(selp\.b32\s+%r\d+, )24,", r"\g<1>23,"), "race-shared|mbarrier"),
    "count too high": (each(r"(selp\.b32\s+%r\d+, )24,", r"\g<1>25,"), "stopped"),
    "group 0 does not arrive": (only(ARRIVE, 0), "stopped"),
    "arrivals in all CTAs but the last": (each(r"(chosen, lane, )3", r"\g<1>2"), "stopped"),
    "arrivals release nothing": (
        each(r"(@chosen mbarrier\.arrive)\.release", r"\1.relaxed"),
        "race-shared",
    ),
    "the lanes do not meet before one publishes": (
        each(r"bar\.warp\.sync -1;(?=\s*mov\.u32 lane)"),
        "race-shared.*bar.warp.sync",
    ),
    "arrivals of CTA scope": (
        each(r"(@chosen mbarrier\.arrive\.release)\.cluster", r"\1.cta"),
        "race-shared.*cluster scope",
    ),
    "waits of CTA scope": (
        each(r"(try_wait\.parity\.acquire)\.cluster", r"\1.cta"),
        "race-shared.*cluster scope",
    ),
    "no fence before the store": (each(r"fence\.proxy\.async\.shared::cta;"), "race-shared"),
    "no barrier before the store": (each(r"bar\.sync\s+1, 256;"), "race-shared"),
    "no barrier between the halves": (each(r"bar\.sync\s+4, 256;"), "race-tmem"),
    "barriers initialised without a fence": (
        each(r"fence\.mbarrier_init\.release\.cluster;"),
        "mbarrier-init-not-fenced",
    ),
}


@pytest.mark.parametrize("options", [SCHEDULES[1], *also(SCHEDULES[2])], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str, options: dict[str, Any]) -> None:
    rewrite, expected = FAULTS[fault]
    found = objections(arguments(MUTATED), rewrite, **options)
    assert found
    assert any(re.search(expected, text) for text in found), found[0]


@pytest.mark.parametrize("size", [2, *also(8)])
def test_facts_of_the_text(size: int) -> None:
    variant = Variant(partition=Partition.CLUSTER, num_partitions=size)
    spec = KernelSpec.for_attention(DType.BF16, 128, variant=variant)
    ptx = compiled(spec).ptx
    plan, groups = spec.config.reduce_scatter, 2
    units = sum(len(plan.units(group)) for group in range(groups))
    vectors = units * plan.unit_columns // 4 * size
    assert compiled(spec).cluster == (size, 1, 1)
    assert ptx.count("ld.shared::cluster.v4.f32") == vectors
    assert ptx.count("ld.shared::cluster.v2.f32") == groups * size
    assert ptx.count("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64") == groups
    # The warp barrier comes right before the arrival that publishes for the whole warp.
    published = re.findall(
        r"bar\.warp\.sync -1;\s*mov\.u32 lane, %laneid;\s*"
        rf"setp\.lt\.u32 chosen, lane, {size};\s*"
        r"@chosen mapa\.shared::cluster\.u32 remote, %r\d+, lane;\s*"
        r"@chosen mbarrier\.arrive\.release\.cluster\.shared::cluster\.b64 _, \[remote\];",
        ptx,
    )
    assert len(published) == groups
    # One address per CTA and group, and the one of the arrival.
    assert ptx.count("mapa.shared::cluster.u32") == groups * (size + 1)
    assert len(re.findall(BEGIN, ptx)) == len(re.findall(LEAVE, ptx)) == 1


def test_other_kernels_reach_into_no_other_cta() -> None:
    for variant in (Variant(), Variant(partition=Partition.WORKSPACE)):
        ptx = compiled(KernelSpec.for_attention(DType.BF16, 128, variant=variant, num_qo=1)).ptx
        assert "shared::cluster" not in ptx.replace(".mbarrier::arrive::one.shared::cluster", "")
        assert "barrier.cluster" not in ptx


def test_descriptors_do_not_carry_the_rank() -> None:
    """Addresses of shared memory do: without the mask P V of rank 1 reads other rows of V.

    Of the 18 bits the mask keeps, the compiler leaves out those that the base never has.
    """
    given = arguments(replace(CASES[2], lengths=((20, 300),)))
    exact = call(given).out
    keep_all = each(r"(and\.b32\s+%r\d+, %r\d+, )261120;", r"\g<1>-1024;")
    wrong = call(given, rewrite=keep_all).out
    assert torch.isfinite(exact).all()
    assert not torch.equal(exact, wrong)
