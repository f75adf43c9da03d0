"""Synchronisation of the kernel with a single Q tile, and the order in which it issues."""

import re
from dataclasses import replace

import pytest

from fa4_cute.host.run import simulator
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.tmem import AttentionTmem
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.options import run_options
from sm100sim.report import EventKind
from tests.kernel import watchers
from tests.kernel.artifacts import sass
from tests.kernel.attention_case import Case, inputs, run_kernel
from tests.kernel.test_protocol import WAIT

CASES = [
    *(Case(128, keys, 128, num_qo=1) for keys in (0, 100, 256, 384, 1100)),
    Case(133, 777, 128, causal=True, num_qo=1),
    Case(128, 650, 128, causal=True, num_qo=1),
    Case(9, 1000, 64, heads=8, kv_heads=1, causal=True, num_qo=1),
    Case(100, 1000, 192, num_qo=1),
]
MUTATED = Case(100, 700, 128, causal=True, num_qo=1)
COUNTS = (MUTATED, replace(MUTATED, seqlen_k=600), replace(MUTATED, seqlen_k=100))
"""An even and an odd number of key tiles, and one."""
IMPLIED_WAITS = 2
"""Each group waits for the other's last P V, which the exchange of row values implies."""
SPECS = [
    KernelSpec.for_attention(DType.BF16, head_dim, causal=causal, return_lse=True, num_qo=1)
    for head_dim in (64, 128, 192)
    for causal in (False, True)
]


def objections(case: Case, rewrite=str, **options) -> int:
    """Run under all watchers; returns the number of findings."""
    operands = inputs(case)
    return watchers.objections(lambda: run_kernel(case, *operands, rewrite=rewrite), **options)


@pytest.mark.parametrize("options", [{"mode": "late"}, {"mode": "random", "seed": 3}], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_watcher_objects(case: Case, options: dict) -> None:
    assert objections(case, **options) == 0


@pytest.mark.parametrize("case", CASES[-4:], ids=str)
def test_results_do_not_depend_on_timing(case: Case) -> None:
    operands = inputs(case)
    watchers.check_schedules(lambda: run_kernel(case, *operands))


@pytest.mark.parametrize(
    "statement",
    [
        r"tcgen05\.wait::st\.sync\.aligned;",
        r"fence\.proxy\.async\.shared::cta;",
        # the output of each group, the exchange of row values, the end
        *(rf"bar\.sync {barrier}, \d+;" for barrier in (1, 2, 3, 4)),
    ],
)
def test_missing_statements_are_noticed(statement: str) -> None:
    def without(ptx: str) -> str:
        changed = re.sub(statement, "", ptx)
        assert changed != ptx
        return changed

    assert objections(MUTATED, without, mode="random", seed=3) > 0


@pytest.mark.slow
def test_every_wait_is_noticed_when_it_is_missing() -> None:
    unnoticed, total, index = 0, 1, 0

    def without(ptx: str) -> str:
        nonlocal total
        spans = [match.span() for match in WAIT.finditer(ptx)]
        total = len(spans)
        start, end = spans[index]
        return ptx[:start] + ptx[end:]

    while index < total:
        unnoticed += not any(objections(c, without, mode="random", seed=3) for c in COUNTS)
        index += 1
    assert total > 30
    assert unnoticed == IMPLIED_WAITS


@pytest.mark.parametrize("keys", [1, 128, 129, 384, 500, 640])
@pytest.mark.parametrize("num_qo", [1, 2])
def test_products_are_issued_in_the_planned_order(num_qo: int, keys: int) -> None:
    case = Case(128, keys, 128, num_qo=num_qo)
    spec = KernelSpec.for_attention(case.dtype, case.head_dim, num_qo=num_qo)
    with run_options(trace_cluster=0):
        run_kernel(case, *inputs(case))
    report = simulator.last_report()
    assert report is not None
    columns = [event.a for event in report.events if event.kind is EventKind.MMA]
    # Several MMAs make up one product; the plan never issues the same one twice in a row.
    found = [c for i, c in enumerate(columns) if i == 0 or columns[i - 1] != c]
    memory = AttentionTmem.of(spec.config)
    region = {"S": memory.s, "O": memory.o}
    order = spec.issue_order.issues(-(-keys // spec.config.BN))
    assert found == [region[issue.product](issue.chain).start for issue in order]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_no_role_spills(spec: KernelSpec) -> None:
    assert [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)] == []
