"""The variants that are timed are kernels that fit an SM, and differ."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.hopper.sm90_variants import PROBLEMS, TRIALS, Trial, all_specs, tensors, trials_of
from fa4_cute.host.ask.problem import Problem
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.config.sm90_tiles import MIN_KV_STAGES
from fa4_cute.plan.facts.hardware import SM90A, SMEM_CAPACITY


def test_every_kernel_fits() -> None:
    specs = list(all_specs())
    assert len(specs) == sum(len(trials_of(depth)) for depth, _, _ in PROBLEMS)
    for spec in specs:
        config = spec.config
        assert isinstance(config, SM90Config)
        assert config.smem_used <= SMEM_CAPACITY
        assert config.num_kv_stages >= MIN_KV_STAGES
        assert spec.schedule["consumer"].num_warps == 4 * config.num_consumers


def test_a_trial_changes_what_it_says() -> None:
    q, k, v = tensors(128, 4096, "meta")
    asked = replace(Problem.from_tensors(q, k, v), arch=SM90A)
    trial = TRIALS["176 keys any time"]
    config = trial.chosen(asked).spec.config
    assert (config.BN, config.in_turn) == (176, False)
    long, table = (trial.chosen(asked).spec for trial in (Trial(), TRIALS["128 keys"]))
    assert (long.config.BM, long.config.BN) == (192, 80)
    assert (table.config.BM, table.config.BN) == (128, 128)
    assert table.schedule["consumer"].num_warps == 8
