"""What is timed beside the choices for a decoding step: kernels that fit an SM, and differ."""

from __future__ import annotations

from benchmarks.hopper.decode_variants import PROBLEMS, TRIALS, chosen
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.config.sm90_tiles import MIN_KV_STAGES
from fa4_cute.plan.facts.hardware import SMEM_PER_SM, SMEM_RESERVED_PER_CTA


def test_every_kernel_fits() -> None:
    for problem in PROBLEMS:
        found = {name: choice for name, choice, _ in chosen(problem)}
        assert list(found) == list(TRIALS)
        for choice in found.values():
            config = choice.spec.config
            assert isinstance(config, SM90Config)
            share = config.ctas_per_sm * (config.smem_used + SMEM_RESERVED_PER_CTA)
            assert share <= SMEM_PER_SM
            assert config.num_kv_stages >= MIN_KV_STAGES
        assert found["8 splits"].num_splits == 8
        wide = found["wide tile"].spec.config
        assert isinstance(wide, SM90Config)
        assert wide.num_consumers > 1


def test_the_rules_split_long_caches() -> None:
    counts = [next(choice for _, choice, _ in chosen(p)).num_splits for p in PROBLEMS]
    assert 1 in counts
    assert max(counts) > 16
