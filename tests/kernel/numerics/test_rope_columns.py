"""Queries and keys wider than the values: rope columns in regions of their own."""

import re
from dataclasses import replace

import pytest
import torch

from fa4_cute.host.run import simulator
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.options import Check, run_options
from tests.kernel import watchers
from tests.kernel.artifacts import compiled, sass
from tests.kernel.mla_case import MlaCase, check, inputs, run

pytestmark = pytest.mark.slow

BF16, FP16, FP8 = DType.BF16, DType.FP16, DType.FP8_E4M3

QUICK = [
    # rope beside a fused ring, with more key tiles than slots and rope buffers
    MlaCase(300, 900, causal=True),
    MlaCase(256, 128),
    MlaCase(1, 1),
    MlaCase(133, 77, heads=4, kv_heads=2, batch=2, causal=True, dtype=FP16),
    # one Q tile, whose rings are split: rope columns lie in the slots of K
    MlaCase(100, 700, num_qo=1),
    # other depths: split rings with two Q tiles, rope columns that are partly padding
    MlaCase(200, 700, 128, 64, causal=True),
    MlaCase(150, 300, 96, 80),
    MlaCase(100, 400, 72, 64, causal=True),
    # rope columns of another type
    MlaCase(300, 600, rope_dtype=FP16, causal=True),
    MlaCase(133, 400, heads=2, kv_heads=2, dtype=FP16, rope_dtype=BF16),
    MlaCase(300, 600, dtype=FP8, rope_dtype=BF16, causal=True),
    MlaCase(200, 600, dtype=FP8, rope_dtype=BF16, num_qo=1),
    MlaCase(200, 600, dtype=FP8),
]
PERSISTENT = [
    # the rope buffers go on in turn from query tile to query tile
    MlaCase(300, 333, batch=3, causal=True, num_sms=2),
    MlaCase(100, 333, batch=3, causal=True, num_sms=2, num_qo=1),
    MlaCase(200, 300, batch=3, rope_dtype=FP16, num_sms=1),
]
PAIR = [
    # both CTAs share every MMA and hold half of K and V: split rings, several pairs of CTAs
    MlaCase(700, 900, causal=True, pair_cta=True),
    # a fused ring, and more key tiles than its rope buffers
    MlaCase(300, 2500, dtype=FP8, pair_cta=True),
    # 192 keys a tile, and half a swizzle span of V in each CTA
    MlaCase(600, 500, 128, 64, causal=True, pair_cta=True),
    MlaCase(600, 500, 128, 64, causal=True, dtype=FP8, rope_dtype=FP16, pair_cta=True),
    # rope columns of another type, and of a depth that is partly padding
    MlaCase(133, 400, heads=2, kv_heads=2, batch=2, dtype=FP16, rope_dtype=BF16, pair_cta=True),
    MlaCase(600, 300, 72, 40, heads=3, causal=True, pair_cta=True),
    MlaCase(1100, 300, batch=3, causal=True, num_sms=2, pair_cta=True),
    MlaCase(600, 300, batch=3, dtype=FP8, num_sms=4, pair_cta=True),
]
CLEAN = [QUICK[0], QUICK[4], QUICK[5], QUICK[10], *PERSISTENT, *PAIR]
UNSPILLED = [case.spec for case in (*(QUICK[i] for i in (0, 4, 8, 10)), *PAIR[:4], PAIR[6])]


@pytest.mark.parametrize("case", [*QUICK, *PERSISTENT, *PAIR], ids=str)
def test_output_and_lse(case: MlaCase) -> None:
    check(case, *inputs(case))


@pytest.mark.parametrize("case", [MlaCase(64, 200), MlaCase(300, 200, pair_cta=True)], ids=str)
def test_every_column_counts_once(case: MlaCase) -> None:
    """One column of Q and K at a time carries all of the score."""
    q, k, v = inputs(case)
    for column in (0, 63, 64, 127, 128, 129, 191):
        only = torch.zeros(case.qk_depth)
        only[column] = 4.0
        check(case, q * only, k * only, v)


@pytest.mark.parametrize("dtype", [BF16, FP8])
def test_a_pair_computes_what_one_cta_does(dtype: DType) -> None:
    """Same tiles, same order of additions: the results are the same bit by bit."""
    alone = MlaCase(600, 700, dtype=dtype, causal=True)
    operands = inputs(alone)
    output, lse = run(alone, *operands)
    together, lse_of_pair = run(replace(alone, pair_cta=True), *operands)
    assert torch.equal(together, output)
    assert torch.equal(lse_of_pair, lse)


def objections(case: MlaCase, rewrite=str, **options) -> int:
    """Run under all watchers; returns the number of findings."""
    operands = inputs(case)
    return watchers.objections(lambda: run(case, *operands, rewrite=rewrite), **options)


@pytest.mark.parametrize("options", [{"mode": "late"}, {"mode": "random", "seed": 3}], ids=str)
@pytest.mark.parametrize("case", CLEAN, ids=str)
def test_no_watcher_objects(case: MlaCase, options: dict) -> None:
    assert objections(case, **options) == 0


@pytest.mark.parametrize("case", PERSISTENT, ids=str)
def test_scores_of_the_next_query_tile_are_fenced(case: MlaCase) -> None:
    """With one Q tile the softmax groups meet through columns that the next scores overwrite."""
    with run_options(checks=Check.ALL | Check.STRICT_FENCE, mode="random", seed=3):
        run(case, *inputs(case))
    report = simulator.last_report()
    assert report is not None
    assert not report.findings


@pytest.mark.parametrize("case", CLEAN[:2], ids=str)
def test_results_do_not_depend_on_timing(case: MlaCase) -> None:
    operands = inputs(case)
    watchers.check_schedules(lambda: run(case, *operands))


def test_a_single_rope_buffer_is_too_few() -> None:
    """All key tiles in one buffer: a tile lands while the one before is still multiplied."""
    case = MlaCase(256, 900)
    config = case.spec.config
    assert config.use_fused_kv
    assert config.num_rope_buffers() == 2
    stride = config.k_rows_per_cta() * config.rope_depth() * config.rope_dtype_size
    # The buffer's offset is the tile's parity times its size, in the load and the MMA role.
    offset = re.compile(rf"(and\.b32\s+%r\d+, %r\d+), {stride};")
    assert len(offset.findall(compiled(case.spec).ptx)) == 2

    def in_one_buffer(ptx: str) -> str:
        return offset.sub(r"\1, 0;", ptx)

    assert objections(case, mode="random", seed=1) == 0
    assert objections(case, in_one_buffer, mode="random", seed=1) > 0


@pytest.mark.parametrize("spec", UNSPILLED, ids=lambda s: s.name)
def test_no_role_spills(spec: KernelSpec) -> None:
    assert [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)] == []


def test_impossible_depths_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="qk_depth=64 is smaller than ov_depth=128"):
        KernelSpec.for_attention(BF16, 64, head_dim_v=128)
    with pytest.raises(ValueError, match=r"ov_depth=120: rope columns that are tensors"):
        KernelSpec.for_attention(BF16, 192, head_dim_v=120, rope_dtype=FP16)
