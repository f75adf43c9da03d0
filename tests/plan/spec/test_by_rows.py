"""A kernel that counts query tiles by rows is the kernel that does not, but for that."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.plan.facts.hardware import SM90A, SM100A
from fa4_cute.plan.launch.sm100_selection import choose_blackwell_scheduler
from fa4_cute.plan.launch.sm100_splits import choose_blackwell_splits
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler

DIMS = ((64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256), (512, 512))
FEATURES = (
    Features(ragged_q=True, ragged_k=True),
    Features(ragged_q=True, used_k=True, page_size=64),
    Features(ragged_q=True, used_k=True, page_size=16, sink=True),
)
SCHEDULERS = (None, Scheduler.TILE, Scheduler.PERSISTENT, Scheduler.DYNAMIC)


def every_problem(arch: str, dtype: str) -> list[Problem]:
    """Return chunks of prompts beside steps of decoding, of all head dims and features."""
    dims = DIMS if arch == SM100A else DIMS[:-1]
    schedulers = SCHEDULERS if arch == SM100A else SCHEDULERS[:-1]
    return [
        Problem(
            dtype, 64, queries, 4096, 16, 4, head_dim, head_dim_v, causal=causal, arch=arch,
            num_qo=num_qo, features=replace(features, scheduler=scheduler), total_q=queries + 63,
        )
        for (head_dim, head_dim_v), features, scheduler, causal, queries, num_qo in product(
            dims, FEATURES, schedulers, (False, True), (512, 4096),
            (None, 2) if dtype == "bf16" else (None,),
        )
        if num_qo is None or head_dim <= 192
    ]  # fmt: skip


def without(spec: AttentionSpec) -> AttentionSpec:
    return replace(spec, variant=replace(spec.variant, by_rows=False))


@pytest.mark.parametrize("dtype", ["bf16", "fp8_e4m3"])
@pytest.mark.parametrize("arch", [SM90A, SM100A])
def test_all_packed_kernels_serve_sequences_that_differ(arch: str, dtype: str) -> None:
    """Same configuration, same warps and registers, and the rules say of both what they say."""
    by_rows = 0
    for problem in every_problem(arch, dtype):
        found: Any = choose(problem)
        assert isinstance(found, Choice), (problem, found)
        spec = found.spec
        other: Any = choose(replace(problem, features=replace(problem.features, by_rows=False)))
        assert spec.config == other.spec.config
        assert spec.schedule == other.spec.schedule
        if not spec.variant.by_rows:
            continue
        by_rows += 1
        assert without(spec) == other.spec
        if not isinstance(spec, SM90Spec):
            for rule in (choose_blackwell_scheduler, choose_blackwell_splits):
                ruled = rule(spec, problem.sizes, problem.sms)
                assert ruled == rule(other.spec, problem.sizes, problem.sms)
    assert by_rows > 100
