"""`make mutants`: kernels and classes that it covers, names of barriers, unexplained survivors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import equivalent_mutants, mutants
from benchmarks.equivalent_mutants import EQUIVALENT, Equivalent, Survivor, barrier_of, explain
from benchmarks.launches import Described, Launch
from benchmarks.mutants import (
    KERNELS,
    MOVED_ADDRESSES,
    REPEATED,
    barrier_names,
    planted,
    prepared,
    trial,
)
from sm100sim.mutate import Mutant
from sm100sim.options import RunOptions

NAMES = {64: "FULL[0]", 72: "FULL[1]", 128: "EMPTY[0]"}


def mutant(before: str, kind: str = "drop-wait", line: int = 0) -> Mutant:
    return Mutant(kind, line, before, "", "")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["mov.b32 \t%r1, dyn;", "add.s32 \t%r2, %r1, 72;"], "FULL[1]"),
        (["mov.b32 %r1, dyn;", "add.s32 %r3, %r1, 64;", "shl.b32 %r4, %r9, 3;",
          "add.s32 %r5, %r4, %r3;", "add.s32 %r2, %r5, 64;"], "EMPTY[0]+"),
        (["mov.b32 %r1, dyn;", "add.s32 %r3, %r1, 64;",
          "mapa.shared::cluster.u32 %r2, %r3, 0;"], "FULL[0]"),
        (["mov.b32 %r1, dyn;", "selp.b32 %r3, 64, %r4, %p1;",
          "add.s32 %r2, %r3, %r1;"], "FULL[0]+"),
        (["add.s32 %r2, %r1, 72;", "ld.shared.b32 %r2, [%r1];"], "-"),
        ([], "-"),
    ],
)  # fmt: skip
def test_a_barrier_is_named_by_the_constant_part_of_its_address(
    lines: list[str], name: str
) -> None:
    statement = "mbarrier.try_wait.parity.shared::cta.b64 done, [%r2], %r8, 100"
    assert barrier_of(mutant(statement, line=len(lines) + 1), [*lines, statement], NAMES) == name
    assert barrier_of(mutant("tcgen05.wait::st.sync.aligned"), lines, NAMES) == "-"


def test_a_survivor_needs_a_reason_and_a_reason_its_survivors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = (
        Equivalent("k", "drop-wait|wait-on-neighbour", r"FULL\[\d\]", 2, "no reader is left"),
        Equivalent("other", "drop-wait", "-", 5, "not of this kernel"),
    )
    monkeypatch.setattr(equivalent_mutants, "EQUIVALENT", table)
    two = [
        Survivor(mutant("a"), "FULL[0]"),
        Survivor(mutant("b", "wait-on-neighbour"), "FULL[1]"),
    ]
    explained, problems = explain("k", two)
    assert [s.reason for s in explained] == ["no reader is left"] * 2
    assert problems == []
    (missing,) = explain("k", two[:1])[1]
    assert missing.endswith(": 1 survive, 2 explained")
    more = [*two, Survivor(mutant("c"), "EMPTY[0]")]
    assert explain("k", more)[1] == ["drop-wait@0 at EMPTY[0]: c"]


def test_the_report_keeps_kernels_that_did_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "RESULT", tmp_path / "out" / "mutants.json")
    mutants.save({"1q": {"killed": 1}, "2q": {"killed": 2}})
    mutants.save({"1q": {"killed": 3}})
    report = json.loads(mutants.RESULT.read_text())
    assert report == {"2q": {"killed": 2}, "1q": {"killed": 3}}
    assert list(report) == ["2q", "1q"]


def test_the_table_is_about_the_kernels_that_run_and_gives_arguments() -> None:
    kernels = {prepared_name(kernel) for kernel in KERNELS}
    assert {entry.kernel for entry in EQUIVALENT} <= kernels
    assert all(len(entry.reason.split()) > 8 and entry.count > 0 for entry in EQUIVALENT)


def prepared_name(kernel: str) -> str:
    return Described(KERNELS[kernel][0]).spec.name


def test_the_kernels_have_enough_faults_of_every_class() -> None:
    found = {kernel: planted(Launch(cases[0])) for kernel, cases in KERNELS.items()}
    per_kernel = {kernel: {mutant.kind for mutant in some} for kernel, some in found.items()}
    assert sum(map(len, found.values())) >= 150
    assert set.union(*per_kernel.values()) >= MOVED_ADDRESSES | REPEATED
    expected = {
        "drop-wait", "wrong-parity", "wait-on-neighbour", "early-release", "early-commit",
        "more-tx-bytes", "drop-fence-proxy", "wrong-stage-buffer", "b-k-step+",
    }  # fmt: skip
    for kinds in per_kernel.values():
        assert kinds >= expected
    pairs = [k for k in KERNELS if "_pair" in prepared_name(k)]
    assert len(pairs) == 4
    assert all("mask-bit-of-rank0" in per_kernel[k] for k in pairs)
    pages = [k for k in KERNELS if "_page" in prepared_name(k)]
    assert pages
    assert all("drop-bar-warp-sync" in per_kernel[k] for k in pages)


def test_the_rescale_of_every_kernel_runs() -> None:
    """A case whose maxima never move would leave the correction role untested."""
    for kernel in KERNELS:
        launch = Launch(KERNELS[kernel][0])
        source = launch.request.ptx.split("\n")
        report, _ = launch.execute(RunOptions())
        stores = [n for n, text in enumerate(source, 1) if "tcgen05.st.sync" in text]
        assert stores
        assert all(report.line_counts.get(n, 0) for n in stores)
        names = barrier_names(launch)
        assert len(names) > 10


def test_one_fault_of_each_way_of_dying() -> None:
    launches, found = prepared("2q")
    ways = {}
    for kind in ("drop-commit", "drop-fence-proxy", "b-k-step+"):
        ways[kind] = trial(launches, next(m for m in found if m.kind == kind))
    assert ways == {
        "drop-commit": "fault: deadlock",
        "drop-fence-proxy": "finding: race-shared",
        "b-k-step+": "values",
    }
