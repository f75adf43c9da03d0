"""`make mutants`: kernels and classes that it covers, names of barriers, unexplained survivors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import equivalent_mutants, mutants
from benchmarks.equivalent_mutants import EQUIVALENT, Equivalent, Survivor, barrier_of, explain
from benchmarks.mutant_cases import BASES, KERNELS
from benchmarks.mutants import prepared, trial
from benchmarks.planting import (
    LIMIT,
    MOVED_ADDRESSES,
    REPEATED,
    SHARED,
    chosen,
    common,
    shared_lines,
    statements,
)
from sm100sim.mutate import Mutant
from sm100sim.options import RunOptions
from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx
from testing.launches import Described, Launch

pytestmark = pytest.mark.slow

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
    assert barrier_of(len(lines) + 1, statement, [*lines, statement], NAMES) == name
    assert barrier_of(0, "tcgen05.wait::st.sync.aligned", lines, NAMES) == "-"


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


def test_the_record_keeps_kernels_that_did_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mutants, "RECORD", tmp_path / "mutants.json")
    mutants.save({"1q": {"killed": 1}, "2q": {"killed": 2}})
    mutants.save({"1q": {"killed": 3}})
    assert json.loads(mutants.RECORD.read_text()) == {"2q": {"killed": 2}, "1q": {"killed": 3}}
    assert list(mutants.recorded()) == ["2q", "1q"]


def test_rows_of_other_ptx_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutants, "RECORD", tmp_path / "mutants.json")
    monkeypatch.setattr(mutants, "digest", lambda kernel: f"now {kernel}")
    mutants.save({"2q": {"ptx": "now 2q"}, "1q": {"ptx": "before"}})
    assert mutants.main(["--stale", "1q", "2q", "hopper"]) == 1
    said = ["1q: other PTX", "hopper: no row", "1 of 3 rows are of the PTX of now"]
    assert capsys.readouterr().out.splitlines() == said
    assert mutants.main(["--stale", "2q"]) == 0


def test_ptx_is_known_whatever_its_entry_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest_of(ptx: str, kernel: str) -> str:
        request = SimpleNamespace(ptx=ptx, kernel=kernel)
        monkeypatch.setattr(mutants, "Launch", lambda _: SimpleNamespace(request=request))
        mutants.digest.cache_clear()
        return mutants.digest("2q")

    one = digest_of(".entry a() { ret; }", "a")
    assert one == digest_of(".entry b() { ret; }", "b") != digest_of(".entry a() { exit; }", "a")
    mutants.digest.cache_clear()


def test_the_table_argues_the_survivors_of_the_record() -> None:
    rows, argued = mutants.recorded(), Counter[str]()
    for entry in EQUIVALENT:
        argued[entry.kernel] += entry.count
    assert set(rows) <= set(KERNELS)
    assert {k: row["total"] - row["killed"] for k, row in rows.items()} == {
        k: argued[k] for k in rows
    }
    assert {name: row["unexplained"] for name, row in rows.items() if row["unexplained"]} == {}


def test_the_table_is_about_the_kernels_that_run_and_gives_arguments() -> None:
    assert {entry.kernel for entry in EQUIVALENT} <= KERNELS.keys()
    assert all(len(entry.reason.split()) > 8 and entry.count > 0 for entry in EQUIVALENT)


def prepared_name(kernel: str) -> str:
    return Described(KERNELS[kernel][0]).spec.name


def kinds_of(mutants: list[Mutant]) -> set[str]:
    return {m.kind for m in mutants}


OWN: dict[str, set[str]] = {
    "2q-pages": {"drop-fence-proxy", "drop-bar-warp-sync"},
    "2q-rope": {"drop-copy", "copy-signals-neighbour", "a-k-step+", "b-k-step+"},
    "1q-rope": {"drop-copy", "copy-signals-neighbour", "a-k-step+", "b-k-step+"},
    "2q-fp8": {"drop-wait", "drop-copy", "drop-commit", "early-commit", "a-k-step+", "b-k-step+"},
    "1q-tokens": {"drop-arrive", "drop-copy", "copy-signals-neighbour", "drop-init"},
    "pair256-tokens": {"drop-wait", "drop-arrive", "drop-copy", "copy-signals-neighbour"},
    "1q-cluster": {"relaxed-arrive", "relaxed-wait", "drop-arrive", "drop-barrier-aligned"},
    "1q-last": {"drop-atomic", "relaxed-atomic", "narrow-atomic", "drop-barrier-aligned"},
    "1q-stream-k": {"drop-atomic", "narrow-atomic", "drop-barrier-aligned", "drop-bar-warp-sync"},
    "pair256-stream-k": {
        "drop-atomic", "narrow-atomic", "drop-barrier-aligned", "drop-bar-warp-sync",
    },
    "2q-masks-apart": {"drop-wait", "drop-arrive", "drop-copy", "drop-commit", "early-release"},
    "pair256-persistent": {"drop-wait", "drop-arrive", "drop-fence-before"},
    "pair256-persistent-plain": {"drop-wait", "drop-arrive", "drop-commit", "drop-fence-before"},
    "hopper-fp8-wide": {"drop-wgmma", "drop-wgmma-wait", "flip-scale-d", "drop-fence-proxy"},
    "hopper-sections": {"drop-wait", "wrong-parity", "drop-arrive", "drop-bar-sync"},
    "2q-dynamic": {"drop-wait", "drop-arrive", "drop-expect-tx", "drop-fence-proxy"},
    "pair256-dynamic": {"drop-wait", "drop-arrive", "drop-expect-tx", "drop-fence-proxy"},
    "2q-persistent-plain": set(),
    "1q-persistent-plain": {"drop-wait", "wrong-parity", "wait-on-neighbour"},
}
"""The last but one has no statement at fault that its base has not: it only does less. That with
one Q tile waits for another slot."""
LACKS = {
    "2q-persistent-plain": {"drop-fence-proxy"}, "1q-persistent-plain": {"drop-fence-proxy"},
    "pair256-persistent-plain": {"drop-fence-proxy"},
    "1q-last": {"drop-fence-proxy"},
}  # fmt: skip
"""They write O from the registers, without a copy that would read shared memory."""


EXPECTED = {
    "drop-wait", "wrong-parity", "wait-on-neighbour", "early-release", "early-commit",
    "more-tx-bytes", "drop-fence-proxy", "wrong-stage-buffer", "b-k-step+",
}  # fmt: skip


HOPPER = EXPECTED - {"early-release", "early-commit"} | {
    "drop-wgmma", "drop-wgmma-fence", "drop-wgmma-commit", "drop-wgmma-wait", "weaker-wgmma-wait",
    "late-wgmma-wait", "early-wgmma-commit", "flip-scale-d", "a-wrong-stage", "b-wrong-stage",
}  # fmt: skip
"""Its arrivals have guards, and wgmma takes the place of tcgen05."""

EVERY_RUN = ("2q", "pair512", "2q-pages", "hopper")
"""``make mutants`` compiles all of them."""


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, marks=() if kernel in EVERY_RUN else pytest.mark.exhaustive)
        for kernel in KERNELS
    ],
)
def test_a_kernel_has_faults_of_every_class(kernel: str) -> None:
    found, shared = chosen(kernel), shared_lines(kernel)
    kinds, expected = kinds_of(found), HOPPER if kernel.startswith("hopper") else EXPECTED
    assert len(found) > (100 if kernel in BASES else 120)
    assert kinds >= expected - LACKS.get(kernel, set())
    assert ("_pair" in prepared_name(kernel)) == ("mask-bit-of-rank0" in kinds)
    assert "_page" not in prepared_name(kernel) or "drop-bar-warp-sync" in kinds
    # What a kernel adds to its base is at fault, and a few statements of each class with it.
    own, often = [m for m in found if m.line not in shared], Counter(m.kind for m in found)
    assert kinds_of(own) >= OWN.get(kernel, expected)
    often.subtract(m.kind for m in own)
    assert max(often.values()) == (SHARED if kernel in BASES else 0)
    few = Counter(m.kind for m in own if m.kind in REPEATED | MOVED_ADDRESSES)
    assert max(few.values(), default=0) <= LIMIT


def test_kernels_with_a_base() -> None:
    assert OWN.keys() == BASES.keys()
    whole = [kernel for kernel in KERNELS if kernel not in BASES]
    assert set(BASES.values()) <= set(whole)
    assert len([k for k in KERNELS if "_pair" in prepared_name(k)]) == 9


def test_only_statements_at_corresponding_places_are_shared() -> None:
    wait, arrive, copy = ("wait", "FULL[0]"), ("arrive", "EMPTY[0]"), ("copy", "FULL[0]")
    base = {10: wait, 20: copy, 30: arrive}
    other = {5: wait, 6: copy, 7: copy, 8: ("arrive", "EMPTY[1]")}
    assert common(base, other) in ({5, 6}, {5, 7})
    assert common(base, {n: base[n] for n in base}) == {10, 20, 30}
    assert common(base, {1: arrive, 2: wait, 3: copy}) == {2, 3}
    assert common(base, {}) == set()


def test_a_statement_is_known_without_registers_and_numbers() -> None:
    text = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [], , "
    assert (text, "publish") in statements("1q-cluster").values()


COUNT = {"@counts atom.acq_rel.gpu.global.inc.u32 before, [],"}
IDLE = {"1q-last": COUNT, "1q-stream-k": COUNT}
"""Thread 0 counts its CTA: in the code of the second softmax group nobody does."""


@pytest.mark.exhaustive
def test_every_statement_that_can_be_at_fault_runs() -> None:
    """The rescale among them: a case whose maxima never move would leave it untested."""
    idle: dict[str, set[str]] = {}
    for kernel in KERNELS:
        lines = set(statements(kernel))
        for case in KERNELS[kernel]:
            counts = Launch(case).execute(RunOptions())[0].line_counts
            lines -= {n for n, count in counts.items() if count}
        idle[kernel] = {statements(kernel)[n][0].strip() for n in lines}
    assert {kernel: some for kernel, some in idle.items() if some} == IDLE


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


def test_what_a_fault_leaves_in_counters_is_seen_and_does_not_reach_the_next_run() -> None:
    launch = Launch(KERNELS["1q-last"][2])
    wrong = launch.request.ptx.replace("atom.acq_rel.gpu.global.inc", "atom.acq_rel.gpu.global.add")
    (_, right), (_, found), (_, again) = (
        launch.execute(RunOptions(), ptx) for ptx in (None, wrong, None)
    )
    assert found[-1] != right[-1] == bytes(len(right[-1]))
    assert again == right


def test_a_mutant_without_a_meaning_is_no_killed_one() -> None:
    class Odd:
        @staticmethod
        def execute(_options: RunOptions, _ptx: str) -> Any:
            return run_ptx("frobnicate %r1;")

    with pytest.raises(PtxError, match="frobnicate"):
        trial(cast(Any, [(Odd(), b"")]), mutant("wait;"))
