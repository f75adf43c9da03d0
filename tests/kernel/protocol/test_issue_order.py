"""What is issued when: products in the planned order, operands loaded once, work that overlaps."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.memory.tmem import AttentionTmem
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.issue_order import Issue
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.options import run_options
from sm100sim.report import EventKind
from sm100sim.timeline import overlap_cycles, unit_spans, warp_spans
from testing.arguments import arguments
from testing.cases import Case, dense
from testing.reference.issues import issues_in_turn
from testing.runner import call, spec_of


def found_in(report: Any) -> list[int]:
    """Return the first columns of the products in the order of their issue."""
    columns = [event.a for event in report.events if event.kind is EventKind.MMA]
    # Several MMAs make up one product; none but the last one of a chain follows itself.
    return [c for i, c in enumerate(columns) if i == 0 or columns[i - 1] != c]


def planned(
    spec: KernelSpec, num_tiles: int, num_hidden: int = 0, lead: int = 0
) -> list[int]:
    """Return the same as the plan has it."""
    return columns_of(spec, spec.issue_order.issues(num_tiles, num_hidden, lead))


def columns_of(spec: KernelSpec, order: Iterable[Issue]) -> list[int]:
    """Return the first columns of the products of an order."""
    memory = AttentionTmem.of(spec.config)
    region = {"S": memory.s, "O": memory.o}
    columns = [region[issue.product](issue.chain).start for issue in order]
    return [c for i, c in enumerate(columns) if i == 0 or columns[i - 1] != c]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [1, 128, 129, 384, 500, 640])
@pytest.mark.parametrize("num_qo", [1, 2])
def test_products_are_issued_in_the_planned_order(num_qo: int, keys: int) -> None:
    case = dense(128, keys, 128, num_qo=num_qo)
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case)).reports
    assert found_in(report) == planned(spec, -(-keys // spec.config.BN))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "keys", "num_tiles", "num_hidden"),
    [(256, 512, 4, 1), (256, 256, 2, 1), (256, 500, 4, 1), (128, 384, 3, 0), (256, 100, 1, 0)],
)
def test_a_tile_hidden_from_the_first_query_tile_is_left_out(
    queries: int, keys: int, num_tiles: int, num_hidden: int
) -> None:
    case = dense(queries, keys, 128, 1, 1, num_qo=2, causal=True)
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case)).reports
    assert found_in(report) == planned(spec, num_tiles, num_hidden)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "keys", "num_tiles", "num_hidden", "lead"),
    [
        (127, 512, 2, 0, 1), (127, 500, 3, 0, 1), (300, 900, 5, 0, 1), (300, 500, 4, 1, 0),
        (0, 512, 1, 0, 1),
    ],
)  # fmt: skip
def test_a_tile_hidden_from_the_second_query_tile_is_left_out(
    left: int, keys: int, num_tiles: int, num_hidden: int, lead: int
) -> None:
    case = dense(256, keys, 128, 1, 1, num_qo=2)
    case = replace(case, features=frozenset({"window"}), window=(left, 0))
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case)).reports
    assert found_in(report) == planned(spec, num_tiles, num_hidden, lead)


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["persistent", "dynamic"])
@pytest.mark.parametrize(
    ("causal", "queries", "keys", "tiles"),
    [
        (False, 600, 300, [(3, 0), (3, 0), (3, 0)]),
        (False, 300, 100, [(1, 0), (1, 0)]),
        # The longest first; rows of the last one see no key.
        (True, 1024, 640, [(5, 1), (3, 1), (1, 0), (0, 0)]),
        (True, 1024, 512, [(4, 1), (2, 1), (0, 0), (0, 0)]),
    ],
)
def test_query_tiles_of_a_cta_run_on(
    causal: bool, queries: int, keys: int, tiles: list[tuple[int, int]], feature: str
) -> None:
    """The first S0 of the next one comes in front of the last P V of chain 1."""
    case = dense(queries, keys, 128, 1, 1, num_qo=2, causal=causal)
    case = replace(case, features=case.features | {feature})
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    assert spec.issue_order.runs_on
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case), num_sms=1).reports
    order = (issue for _, issue in issues_in_turn(spec.issue_order, tiles))
    assert found_in(report) == columns_of(spec, order)


@pytest.mark.slow
def test_keys_and_values_are_loaded_once_per_pair() -> None:
    case = dense(512, 700, 128, pair_cta=True)
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case)).reports
    loads = [(e.rank, e.a) for e in report.events if e.kind is EventKind.TMA_LOAD]
    config = spec_of(case).config
    assert isinstance(config, FA4Config)
    num_tiles = -(-700 // config.BN)
    queries = config.BM * config.padded_qk_depth * config.qkv_dtype_size
    keys = values = config.BN * config.padded_ov_depth * config.qkv_dtype_size
    for rank in (0, 1):
        assert sum(n for r, n in loads if r == rank) == queries + num_tiles * (keys + values) // 2


def depth512(case: Case, look_ahead: bool) -> Depth512Spec:
    """Return the kernel of ``case`` in one of its two issue orders."""
    spec = spec_of(case)
    assert isinstance(spec, Depth512Spec)
    return replace(spec, look_ahead=look_ahead)


def measured(head_dim: int, *, look_ahead: bool) -> tuple[int, float, float]:
    """Return the run's end, the busy share of the tensor cores, the overlapped softmax share."""
    case = dense(256 if head_dim == 256 else 128, 2048, head_dim)
    spec = depth512(case, look_ahead)
    with run_options(trace_cluster=0):
        (report,) = call(arguments(case), spec=spec).reports
    tensor = unit_spans(report, "tensor")
    softmax = [span for span in warp_spans(report, 0) if span.label == "busy"]
    busy = sum(span.end - span.start for span in tensor)
    work = sum(span.end - span.start for span in softmax)
    end = max(event.end for event in report.events)
    return end, busy / end, overlap_cycles(tensor, softmax) / work


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [256, 512])
def test_look_ahead_overlaps_softmax_with_the_tensor_cores(head_dim: int) -> None:
    before = measured(head_dim, look_ahead=False)
    after = measured(head_dim, look_ahead=True)
    assert before[2] < 0.1
    assert after[2] > 0.4
    assert after[1] > before[1]
    assert after[0] < 0.85 * before[0]
