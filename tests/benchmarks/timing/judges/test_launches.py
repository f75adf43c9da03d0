"""Launches of the judges: repeated clusters, variants, and Triton's programs on the simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from benchmarks.hopper.sm90_variants import D64, D128, D256, Shape
from benchmarks.timing.judges.cases import CASES, OURS
from benchmarks.timing.judges.launches import alike, period, tensors_of
from benchmarks.timing.judges.our_variants import VARIANTS
from benchmarks.timing.judges.predictions import followed, kept
from benchmarks.timing.judges.problems import Attention, Paged, Product
from fa4_cute.host.ask.problem import Problem
from fa4_cute.plan.facts.hardware import SM90A
from sm100sim.launch_request import LaunchRequest
from sm100sim.timing.records import LaunchTrace
from testing.clocked import Program, op


def launch(ctas: int, executed: int) -> LaunchTrace:
    trace = Program().warp(0, op("NOP")).trace()
    traces = tuple(replace(trace, clusters=(k,)) for k in range(executed))
    return LaunchTrace((ctas, 1, 1), (32, 1, 1), (1, 1, 1), 1024, traces)


def test_clusters_repeat_themselves() -> None:
    (one,) = alike(launch(6, 1), 1).traces
    assert one.clusters == tuple(range(6))
    first, second = alike(launch(6, 2), 2).traces
    assert (first.clusters, second.clusters) == ((0, 2, 4), (1, 3, 5))
    some = launch(6, 2)
    merged = replace(some.traces[0], clusters=(0, 1))
    last = replace(some.traces[1], clusters=(2,))
    many, few = alike(replace(some, traces=(merged, last)), 3).traces
    assert (sorted(many.clusters), few.clusters) == ([0, 1, 3, 4], (2, 5))


def test_over_pages_query_tiles_lie_along_the_second_axis() -> None:
    """Two heads of keys, three query tiles, two sequences: heads and sequences are alike."""
    some = launch(12, 3)
    tiles = tuple(replace(trace, clusters=(2 * k,)) for k, trace in enumerate(some.traces))
    found = alike(replace(some, traces=tiles), 3, 2).traces
    assert [trace.clusters for trace in found] == [(0, 1, 6, 7), (2, 3, 8, 9), (4, 5, 10, 11)]
    paged = next(case for case in CASES if isinstance(case.problem, Paged))
    asked = LaunchRequest("", "k", (2, 3, 2), (32, 1, 1))
    assert period(paged, asked) == (2, 3)
    causal = next(c for c in CASES if isinstance(c.problem, Attention) and c.problem.causal)
    assert period(replace(causal, problem=Attention(1024, 64, True)), asked) == (1, 2)
    assert period(replace(causal, problem=Product(64, 64, 64)), asked) == (1, 1)


def test_a_trace_is_made_once(tmp_path: Path) -> None:
    made = []

    def trace() -> LaunchTrace:
        made.append(1)
        return launch(2, 1)

    assert [kept(tmp_path, "R: a b", trace).grid for _ in range(2)] == [(2, 1, 1)] * 2
    assert len(made) == 1


def test_long_problems_are_not_followed() -> None:
    from benchmarks.hopper.times.problems import TABLE

    chosen = {p.name for p in TABLE if followed("FA4", p)}
    assert "full-d64-k4096-b4-h32_32" in chosen
    assert "full-d64-k4096-b4-h32_32-causal" not in chosen
    assert not any(followed("fa4_cute", p) for p in TABLE if p.head_dim == 64 and p.seqlen_k > 1024)


def test_tensors_lie_apart() -> None:
    case = replace(CASES[0], problem=Product(64, 128, 256))
    near, far = (tensors_of(case, apart) for apart in (0, 4096))
    assert far["b"].data_ptr() - far["a"].data_ptr() == 64 * 256 * 2 + 4096
    assert near["out"].shape == (64, 128)


SHAPES: dict[int, Shape] = {64: D64, 128: D128, 256: D256}


def test_every_variant_of_ours_is_another_kernel() -> None:
    for depth, shape in SHAPES.items():
        asked = replace(Problem.from_tensors(*shape.tensors(2048, "meta")), arch=SM90A)
        names = {c.variant for c in CASES if c.family == OURS and f" d{depth}-" in c.name}
        fewer = names - {"as chosen", "one tile a CTA", "one consumer"}
        for name in fewer:
            variant = VARIANTS[name]
            if variant.stages or not variant.changes:
                continue  # in force while a kernel is asked for
            spec, same = variant.chosen(asked).spec, VARIANTS["as chosen"].chosen(asked).spec
            assert (spec.config, spec.schedule) != (same.config, same.schedule)


CODE = """
import json, torch
from dataclasses import replace
from benchmarks.timing.judges import launches as l
from benchmarks.timing.judges.cases import CASES, INTEGERS, WRITTEN
from benchmarks.timing.judges.problems import (
    Bags, Flagged, Hops, LayerNorm, Product, Softmax, Taps, Transposed, Weighed,
)
from sm100sim.triton import activate
from benchmarks.timing.judges.triton_programs import PROGRAMS
activate(capability=90)
found = {}
small = {
    "Triton softmax": Softmax(4, 1024), "Triton layer norm": LayerNorm(4, 1024),
    "Triton taps": Taps(2, 1024, 8), "Triton bags": Bags(16, 128, 4, 5, 2),
    "Triton softmax, in pieces": Softmax(2, 2048), "Triton transposition": Transposed(128, 64),
    "Triton matrix times vector": Weighed(8, 2048),
    "Triton sums with flags": Flagged(4, 1024, 2),
    "Triton sums, row by row": Flagged(4, 1024, 2),
    "Triton sums of rows that rows name": Hops(12, 1024, 4),
}
for case in CASES:
    if case.family in PROGRAMS and case.family not in found and case.family != "Triton attention":
        case = replace(case, problem=small.get(case.family, Product(128, 128, 128)))
        t = l.tensors_of(case, 0)
        for name, tensor in t.items():
            tensor.fill_(float("nan")) if name in WRITTEN else (
                tensor.copy_(case.integers(name)) if name in INTEGERS else tensor.normal_())
        PROGRAMS[case.family](case, t)
        expected = case.problem.expected(t)
        found[case.family] = float((t["out"].float() - expected).norm() / expected.norm())
print(json.dumps(found))
"""


@pytest.mark.slow
def test_triton_programs_are_right() -> None:
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], check=True, capture_output=True, text=True,
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"},
    )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 12
    assert all(error < 2e-3 for error in found.values()), found


FEW_REGISTERS = """
from benchmarks.timing.judges.cases import CASES
from benchmarks.timing.judges.launches import begin, trace_of

begin()
case = next(case for case in CASES if case.name.endswith("d256-1024 208 registers"))
print(trace_of(case).traces[0].instructions)
"""


@pytest.mark.slow
def test_a_wait_that_ptxas_left_out_is_followed() -> None:
    """It waits for all products before the barrier in front of the PTX's own wait for some."""
    done = subprocess.run(
        [sys.executable, "-c", FEW_REGISTERS], env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.splitlines()[-1]) > 40_000
