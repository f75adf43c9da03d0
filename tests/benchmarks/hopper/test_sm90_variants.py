"""The variants that are timed are kernels that fit an SM, and differ."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.hopper.sm90_variants import (
    D128,
    PROBLEMS,
    TRIALS,
    Shape,
    Trial,
    all_specs,
    trials_of,
)
from fa4_cute.host.ask.problem import Problem
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.config.sm90_tiles import MIN_KV_STAGES
from fa4_cute.plan.facts.hardware import SM90A, SMEM_PER_SM, SMEM_RESERVED_PER_CTA


def test_every_kernel_fits() -> None:
    specs = list(all_specs())
    assert len(specs) == sum(len(trials_of(shape)) for shape, _, _ in PROBLEMS)
    for spec in set(specs):
        config = spec.config
        assert isinstance(config, SM90Config)
        share = config.ctas_per_sm * (config.smem_used + SMEM_RESERVED_PER_CTA)
        assert share <= SMEM_PER_SM
        assert config.num_kv_stages >= MIN_KV_STAGES
        assert spec.schedule["consumer"].num_warps == 4 * config.num_consumers


def asked(shape: Shape, seqlen: int) -> Problem:
    return replace(Problem.from_tensors(*shape.tensors(seqlen, "meta")), arch=SM90A)


def test_a_trial_changes_what_it_says() -> None:
    config = TRIALS["96 keys persistent"].chosen(asked(D128, 1024)).spec.config
    assert config.BN == 96
    long, two = (
        trial.chosen(asked(D128, 4096)).spec.config for trial in (Trial(), TRIALS["two consumers"])
    )
    assert (long.BM, long.BN) == (192, 80)
    assert (two.BM, two.BN) == (128, 128)
