"""Two Q tiles per CTA over a pair of CTAs that share every MMA."""

import re
from dataclasses import replace

import pytest
import torch

from fa4_cute.host.run import simulator
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant
from sm100sim.options import Check, run_options
from sm100sim.report import EventKind
from tests.kernel import fp8_case, sequences_case, watchers
from tests.kernel.artifacts import compiled, sass
from tests.kernel.attention_case import Case, check, inputs, run_kernel
from tests.kernel.sequences_case import Sequences

pytestmark = pytest.mark.slow

BF16, FP16, FP8 = DType.BF16, DType.FP16, DType.FP8_E4M3

QUICK = [
    # one tile of both CTAs, several, a peer without a query, one query, more queries than keys
    Case(512, 128, 128, pair_cta=True),
    Case(1100, 900, 128, causal=True, pair_cta=True),
    Case(200, 700, 128, causal=True, pair_cta=True),
    Case(1, 1, 128, pair_cta=True),
    Case(600, 77, 128, causal=True, pair_cta=True),
    Case(300, 0, 128, pair_cta=True),
    # grouped heads packed into rows, and a group that cannot be packed
    Case(133, 277, 128, heads=8, kv_heads=2, batch=2, causal=True, pair_cta=True),
    Case(100, 300, 96, heads=3, kv_heads=1, causal=True, dtype=FP16, pair_cta=True),
    # padded head dimensions
    Case(300, 400, 72, causal=True, pair_cta=True),
]
CLEAN = [QUICK[1], QUICK[2], QUICK[6]]
MUTATED = Case(600, 700, 128, causal=True, pair_cta=True)
WAIT = re.compile(r"\{[^{}]*?\b(?:LAB_WAIT|WAIT_FOR_PHASE):.*?\}", re.DOTALL)
PACKED = Variant(return_lse=True, ragged_q=True, ragged_k=True)
PERSISTENT = {"scheduler": Scheduler.PERSISTENT}


def pages(size: int, **more) -> Variant:
    return Variant(mask=CAUSAL, return_lse=True, ragged_q=True, used_k=True, page_size=size, **more)


def kernel(variant: Variant, group: int = 1, head_dim: int = 128, dtype: DType = BF16):
    return KernelSpec.for_attention(
        dtype, head_dim, group=group, variant=variant, pair_cta=True
    )


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    if case.seqlen_k:
        check(case, *inputs(case))
        return
    output, lse = run_kernel(case, *inputs(case))
    assert (output == 0).all()
    assert (lse == -torch.inf).all()


def test_the_pair_computes_what_one_cta_does() -> None:
    """Same tiles, same order of additions: the results are the same bit by bit."""
    alone = Case(600, 700, 128, causal=True)
    operands = inputs(alone)
    together, lse = run_kernel(MUTATED, *operands)
    output, lse_alone = run_kernel(alone, *operands)
    assert torch.equal(together, output)
    assert torch.equal(lse, lse_alone)


def test_fp8() -> None:
    case = Case(600, 520, 128, causal=True, dtype=FP8, pair_cta=True)
    q, k, v = inputs(case)
    output, _ = fp8_case.run(case, q, k, v)
    alone, _ = fp8_case.run(Case(600, 520, 128, causal=True, dtype=FP8), q, k, v)
    assert torch.equal(output, alone)


@pytest.mark.parametrize(
    "case",
    [
        Sequences(kernel(PACKED), (100, 600, 1, 0, 257), (200, 300, 64, 10, 5), kv_heads=2),
        Sequences(kernel(pages(16)), (40, 600, 3), (200, 700, 5)),
        Sequences(kernel(pages(64), 4), (40, 150), (200, 430)),
        Sequences(kernel(pages(256)), (520, 40), (600, 300)),
        # Two pairs and one, which take several query tiles each, and some without a key or query.
        Sequences(
            kernel(replace(PACKED, **PERSISTENT)), (100, 600, 1, 0, 257), (200, 300, 64, 10, 5),
            kv_heads=2, num_sms=4,
        ),
        Sequences(kernel(pages(64, **PERSISTENT), 4), (40, 150, 9), (200, 430, 0), num_sms=2),
    ],
    ids=lambda case: case.spec.name,
)  # fmt: skip
def test_sequences(case: Sequences) -> None:
    with run_options(checks=Check.ALL, mode="random", seed=2):
        sequences_case.check(case)
    report = simulator.last_report()
    assert report is not None
    assert not report.findings


def objections(case: Case, rewrite=str, **options) -> int:
    """Run under all watchers; returns the number of findings."""
    operands = inputs(case)
    return watchers.objections(lambda: run_kernel(case, *operands, rewrite=rewrite), **options)


@pytest.mark.parametrize("options", [{"mode": "late"}, {"mode": "random", "seed": 3}], ids=str)
@pytest.mark.parametrize("case", CLEAN, ids=str)
def test_no_watcher_objects(case: Case, options: dict) -> None:
    assert objections(case, **options) == 0


@pytest.mark.parametrize("case", CLEAN[:2], ids=str)
def test_results_do_not_depend_on_timing(case: Case) -> None:
    operands = inputs(case)
    watchers.check_schedules(lambda: run_kernel(case, *operands))


def test_keys_and_values_are_loaded_once_per_pair() -> None:
    case = Case(512, 700, 128, pair_cta=True)
    with run_options(trace_cluster=0):
        run_kernel(case, *inputs(case))
    report = simulator.last_report()
    assert report is not None
    loads = [(e.rank, e.a) for e in report.events if e.kind is EventKind.TMA_LOAD]
    config = spec_of(case).config
    num_tiles = -(-case.seqlen_k // config.BN)
    queries = config.BM * config.padded_qk_depth * config.qkv_dtype_size
    keys = values = config.BN * config.padded_ov_depth * config.qkv_dtype_size
    for rank in (0, 1):
        assert sum(n for r, n in loads if r == rank) == queries + num_tiles * (keys + values) // 2


@pytest.mark.parametrize(
    "statement",
    [
        r"tcgen05\.wait::st\.sync\.aligned;",
        r"fence\.proxy\.async\.shared::cta;",
        r"barrier\.cluster\.wait\.acquire\.aligned;",
        r"tcgen05\.dealloc[^;]*;",
        r"fence\.mbarrier_init\.release\.cluster;",
    ],
)
def test_missing_statements_are_noticed(statement: str) -> None:
    assert re.search(statement, compiled(spec_of(MUTATED)).ptx)
    found = [
        objections(MUTATED, lambda ptx: re.sub(statement, "", ptx), **options)
        for options in ({"mode": "random", "seed": 3}, {"mode": "late"})
    ]
    assert any(found)


def spec_of(case: Case) -> KernelSpec:
    return KernelSpec.for_attention(
        case.dtype, case.head_dim, causal=case.causal, return_lse=True, pair_cta=True
    )


SPECS = [
    kernel(Variant(return_lse=True)),
    kernel(Variant(mask=CAUSAL, return_lse=True)),
    kernel(pages(64)),
    kernel(Variant(mask=CAUSAL, return_lse=True), dtype=FP8),
    kernel(pages(16, sink=True, **PERSISTENT)),
    kernel(Variant(mask=CAUSAL, return_lse=True, **PERSISTENT), dtype=FP8),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_no_role_spills(spec: KernelSpec) -> None:
    assert [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)] == []


@pytest.mark.parametrize("head_dim", [64, 192])
def test_other_head_dims_are_refused_in_words(head_dim: int) -> None:
    with pytest.raises(ValueError, match="nearest supported choice: pair_cta=False"):
        kernel(Variant(), head_dim=head_dim)
