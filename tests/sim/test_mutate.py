"""Planted faults: what is edited, that each is one change that parses, that all classes are
there."""

from __future__ import annotations

from typing import Any

import pytest

from sm100sim.mutate import Mutant, faulty, mutants, thinned
from sm100sim.options import Check
from sm100sim.ptx.parser import parse
from sm100sim.run import prepare
from testing.harness import kernel_text, run_ptx
from tests.sim.isa.memory.programs import SMEM, only, wait

WAIT = "mbarrier.try_wait.parity.shared.b64 %q0, [%r1], 0, 100;"
WAIT_REGISTER = WAIT.replace("], 0", "], %r2")
EXPECT = "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 4096;"
EXPECT_REGISTER = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+16], %r2;"
ARRIVE = "mbarrier.arrive.shared.b64 %rd1, [%r1];"
INIT = "mbarrier.init.shared.b64 [%r1], 2;"
COMMIT = "@%q1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];"
COMMIT_PAIR = (
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [%r1], %h1;"
)
LOAD = (
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
    " [%r1], [%rd1, {%r2, %r3}], [%r4];"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r2, %r3}], [%r1];"
BULK = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r4];"
ARRIVE_CLUSTER = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];"
WAIT_CLUSTER = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q0, [%r1], 0, 100;"
MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, 1;"
MMA_TMEM = "@%q1 tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r3 + 48], %rd2, %r2, %q0;"
ATOM = "@%q1 atom.acq_rel.gpu.global.inc.u32 %r1, [%rd1], %r2;"
RED = "red.release.cta.global.add.u32 [%rd1], 1;"
TMEM_LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r1+16];"
TMEM_STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r3};"


def scope(kind: str, operation: str, changed: str) -> str:
    return f"{{ .reg .{kind} mutant; {operation}; {changed} }}"


def offsets(statement: str, position: str, name: str) -> dict[str, str]:
    """The three wrong offsets of a descriptor operand."""
    steps = {"k-step+": 2, "row-group+": 64, "row-group-": -64}
    changed = statement.replace(position, "mutant")
    return {
        f"{name}-{key}": scope("b64", f"add.s64 mutant, {position}, {step}", changed)
        for key, step in steps.items()
    }


STATEMENTS: dict[str, dict[str, str]] = {
    WAIT: {
        "drop-wait": "setp.eq.u32 %q0, 0, 0;",
        "wrong-parity": WAIT.replace("], 0", "], 1"),
        "wait-on-neighbour": WAIT.replace("[%r1]", "[%r1+-8]"),
    },
    WAIT_REGISTER: {
        "drop-wait": "setp.eq.u32 %q0, 0, 0;",
        "wrong-parity": scope(
            "b32", "xor.b32 mutant, %r2, 1", WAIT_REGISTER.replace("%r2", "mutant")
        ),
        "wait-on-neighbour": WAIT_REGISTER.replace("[%r1]", "[%r1+-8]"),
    },
    EXPECT: {
        "drop-expect-tx": "",
        "more-tx-bytes": EXPECT.replace("4096", "4112"),
        "fewer-tx-bytes": EXPECT.replace("4096", "4080"),
        "expect-tx-at-neighbour": EXPECT.replace("[%r1]", "[%r1+8]"),
    },
    EXPECT_REGISTER: {
        "drop-expect-tx": "",
        "more-tx-bytes": scope(
            "b32", "add.s32 mutant, %r2, 16", EXPECT_REGISTER.replace("%r2", "mutant")
        ),
        "fewer-tx-bytes": scope(
            "b32", "add.s32 mutant, %r2, -16", EXPECT_REGISTER.replace("%r2", "mutant")
        ),
        "expect-tx-at-neighbour": EXPECT_REGISTER.replace("+16", "+24"),
    },
    ARRIVE: {
        "drop-arrive": "",
        "double-arrive": f"{{ {ARRIVE} {ARRIVE} }}",
        "arrive-at-neighbour": ARRIVE.replace("[%r1]", "[%r1+8]"),
    },
    INIT: {
        "drop-init": "",
        "count-plus-one": INIT.replace("2;", "3;"),
        "count-minus-one": INIT.replace("2;", "1;"),
    },
    INIT.replace("2;", "1;"): {"drop-init": "", "count-plus-one": INIT},
    COMMIT: {"drop-commit": "", "commit-at-neighbour": COMMIT.replace("[%r1]", "[%r1+8]")},
    COMMIT_PAIR: {
        "drop-commit": "",
        "commit-at-neighbour": COMMIT_PAIR.replace("[%r1]", "[%r1+8]"),
        "mask-bit-of-rank0": scope(
            "b16", "xor.b16 mutant, %h1, 1", COMMIT_PAIR.replace("%h1", "mutant")
        ),
        "mask-bit-of-rank1": scope(
            "b16", "xor.b16 mutant, %h1, 2", COMMIT_PAIR.replace("%h1", "mutant")
        ),
    },
    LOAD: {
        "drop-copy": "",
        "wrong-stage-buffer": LOAD.replace("[%r1]", "[%r1+16384]"),
        "copy-signals-neighbour": LOAD.replace("[%r4]", "[%r4+8]"),
    },
    STORE: {"drop-copy": "", "wrong-stage-buffer": STORE.replace("[%r1]", "[%r1+16384]")},
    BULK: {
        "drop-copy": "",
        "wrong-stage-buffer": BULK.replace("[%r1]", "[%r1+512]"),
        "copy-signals-neighbour": BULK.replace("[%r4]", "[%r4+8]"),
    },
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 512;": {},
    ARRIVE_CLUSTER: {
        "drop-arrive": "",
        "double-arrive": f"{{ {ARRIVE_CLUSTER} {ARRIVE_CLUSTER} }}",
        "arrive-at-neighbour": ARRIVE_CLUSTER.replace("[%r1]", "[%r1+8]"),
        "narrow-release": ARRIVE_CLUSTER.replace("release.cluster", "release.cta"),
        "relaxed-arrive": ARRIVE_CLUSTER.replace("release", "relaxed"),
    },
    WAIT_CLUSTER: {
        "drop-wait": "setp.eq.u32 %q0, 0, 0;",
        "wrong-parity": WAIT_CLUSTER.replace("], 0", "], 1"),
        "wait-on-neighbour": WAIT_CLUSTER.replace("[%r1]", "[%r1+-8]"),
        "narrow-acquire": WAIT_CLUSTER.replace("acquire.cluster", "acquire.cta"),
        "relaxed-wait": WAIT_CLUSTER.replace("acquire", "relaxed"),
    },
    ATOM: {
        "drop-atomic": "",
        "relaxed-atomic": ATOM.replace("acq_rel", "relaxed"),
        "unreleased-atomic": ATOM.replace("acq_rel", "acquire"),
        "unacquired-atomic": ATOM.replace("acq_rel", "release"),
        "narrow-atomic": ATOM.replace("gpu", "cta"),
    },
    RED: {"drop-atomic": "", "relaxed-atomic": RED.replace("release", "relaxed")},
    "atom.global.add.u32 %r1, [%rd1], %r2;": {},
    "fence.proxy.async.shared::cta;": {"drop-fence-proxy": ""},
    "fence.mbarrier_init.release.cluster;": {"drop-fence-mbarrier_init": ""},
    "tcgen05.wait::st.sync.aligned;": {"drop-wait-st": ""},
    "tcgen05.wait::ld.sync.aligned;": {"drop-wait-ld": ""},
    "tcgen05.fence::before_thread_sync;": {"drop-fence-before": ""},
    "tcgen05.fence::after_thread_sync;": {"drop-fence-after": ""},
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;": {"drop-relinquish": ""},
    "cp.async.bulk.commit_group;": {"drop-bulk-commit": ""},
    "cp.async.bulk.wait_group.read 0;": {"drop-bulk-wait": ""},
    "bar.sync 1, 64;": {
        "drop-bar-sync": "",
        "wrong-bar-count": "bar.sync 1, 32;",
    },
    "barrier.cluster.arrive.release.aligned;": {
        "drop-barrier-aligned": "",
        "relaxed-cluster-arrive": "barrier.cluster.arrive.relaxed.aligned;",
    },
    "barrier.cluster.arrive.aligned;": {
        "drop-barrier-aligned": "",
        "relaxed-cluster-arrive": "barrier.cluster.arrive.relaxed.aligned;",
    },
    "barrier.cluster.arrive.relaxed.aligned;": {"drop-barrier-aligned": ""},
    "barrier.cluster.wait.acquire.aligned;": {"drop-barrier-aligned": ""},
    "setmaxnreg.inc.sync.aligned.u32 184;": {
        "greedy-setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 192;"
    },
    "setmaxnreg.inc.sync.aligned.u32 256;": {},
    TMEM_LOAD: {
        "tmem-column+8": TMEM_LOAD.replace("+16", "+24"),
        "tmem-column-8": TMEM_LOAD.replace("+16", "+8"),
    },
    TMEM_STORE: {
        "tmem-column+8": TMEM_STORE.replace("[%r1]", "[%r1+8]"),
        "tmem-column-8": TMEM_STORE.replace("[%r1]", "[%r1+-8]"),
    },
    MMA: {
        "accumulator-column": MMA.replace("[%r1]", "[%r1+8]"),
        **offsets(MMA, "%rd1", "a"),
        **offsets(MMA, "%rd2", "b"),
    },
    MMA_TMEM: {
        "accumulator-column": MMA_TMEM.replace("[%r1]", "[%r1+8]"),
        "operand-column": MMA_TMEM.replace("[%r3 + 48]", "[%r3+56]"),
        **offsets(MMA_TMEM, "%rd2", "b"),
    },
}


def has_faults(statement: str, faults: dict[str, str]) -> None:
    """Compare all mutants of a statement, by kind, with what stands in its place; each parses."""
    text = kernel_text(statement, ())
    found = mutants(text, "k")
    assert {m.kind: m.ptx for m in found} == {
        kind: text.replace(statement, after) for kind, after in faults.items()
    }
    for mutant in found:
        parse(mutant.ptx)
        prepare(mutant.ptx, "k")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_has_its_faults(statement: str) -> None:
    has_faults(statement, STATEMENTS[statement])


def test_the_statements_that_can_be_at_fault_are_those_with_mutants() -> None:
    text = kernel_text("\n".join([*STATEMENTS, "add.u32 %r1, %r1, 1;"]), ())
    found = mutants(text, "k")
    assert faulty(text, "k") == {m.line: m.before for m in found}


def test_a_guard_stays_with_its_statement() -> None:
    text = kernel_text(f"@%q1 {WAIT}", ())
    (dropped,) = [m for m in mutants(text, "k") if m.kind == "drop-wait"]
    assert "@%q1 setp.eq.u32 %q0, 0, 0;" in dropped.ptx


def test_names_are_unique_and_one_line_differs() -> None:
    text = kernel_text("\n".join(STATEMENTS), ())
    found = [m for m in mutants(text, "k") if not m.kind.startswith("early")]
    assert len({m.name for m in found}) == len(found) == sum(map(len, STATEMENTS.values()))
    for mutant in found:
        assert changed_lines(text, mutant) == [mutant.line]


def test_the_distance_of_a_stage_is_the_callers() -> None:
    found = mutants(kernel_text(STORE, ()), "k", stage_bytes=2048)
    (moved,) = [m for m in found if m.kind == "wrong-stage-buffer"]
    assert "[%r1+2048]" in moved.ptx


def test_nothing_to_break_gives_no_fault() -> None:
    assert mutants(kernel_text("add.u32 %r1, %r1, 1;", ()), "k") == []


# ---- moved statements ---------------------------------------------------------------------------
def changed_lines(text: str, mutant: Mutant) -> list[int]:
    pairs = zip(text.split("\n"), mutant.ptx.split("\n"), strict=True)
    return [k for k, (a, b) in enumerate(pairs, 1) if a != b]


def moved(body: str, kind: str) -> list[tuple[str, str]]:
    """(statement at the old place, statement at the new place) of the mutants of `kind`."""
    text = kernel_text(body, ())
    out = []
    for mutant in mutants(text, "k"):
        if mutant.kind == kind:
            places = changed_lines(text, mutant)
            old, (new,) = mutant.line, {*places} - {mutant.line}
            assert old in places
            parse(mutant.ptx)
            lines = mutant.ptx.split("\n")
            out.append((lines[old - 1].strip(), lines[new - 1].strip()))
    return out


READ = "ld.shared.b32 %r5, [%r9];"


def test_an_early_release_goes_in_front_of_what_it_covers() -> None:
    body = f"W:\n{WAIT}\n@!%q0 bra W;\nadd.u32 %r7, %r7, 1;\n{READ}\n{ARRIVE}"
    assert moved(body, "early-release") == [("", f"{{ {ARRIVE} }} add.u32 %r7, %r7, 1;")]


def test_an_early_release_takes_the_computation_of_its_address_along() -> None:
    body = f"{READ}\nmov.u32 %r2, 64;\nadd.s32 %r1, %r2, 8;\n{ARRIVE}"
    ((old, new),) = moved(body, "early-release")
    slice_of = (
        "{ .reg .b32 mutant0; mov.u32 mutant0, 64; .reg .b32 mutant1;"
        " add.s32 mutant1, mutant0, 8; mbarrier.arrive.shared.b64 %rd1, [mutant1]; }"
    )
    assert (old, new) == ("", f"{slice_of} {READ}")


def test_an_early_release_passes_a_skipped_block_but_no_loop() -> None:
    skip = f"add.u32 %r7, %r7, 1;\n@%q1 bra OVER;\n{READ}\nOVER:\n{ARRIVE}"
    assert moved(skip, "early-release") == [("", f"{{ {ARRIVE} }} add.u32 %r7, %r7, 1;")]
    loop = f"AGAIN:\n{READ}\n@%q1 bra AGAIN;\n{ARRIVE}"
    assert moved(loop, "early-release") == []
    entered = f"@%q1 bra IN;\nret;\n{READ}\nIN:\nadd.u32 %r7, %r7, 1;\n{ARRIVE}"
    assert moved(entered, "early-release") == []


@pytest.mark.parametrize("between", [f"ld.shared.b32 %r1, [%r9];\n{READ}", "add.u32 %r7, %r7, 1;"])
def test_no_early_release_without_an_access_or_with_a_loaded_address(between: str) -> None:
    assert moved(f"{between}\n{ARRIVE}", "early-release") == []


def test_an_early_commit_leaves_out_the_last_mma() -> None:
    body = f"{MMA}\n{MMA}\nmov.b32 %r1, 64;\n{COMMIT}"
    commit = COMMIT.replace("%r1", "mutant0")
    assert moved(body, "early-commit") == [
        ("", f"{{ .reg .b32 mutant0; mov.b32 mutant0, 64; {commit} }} {MMA}")
    ]
    assert moved(COMMIT, "early-commit") == []


# ---- choice and worth ----------------------------------------------------------------------------
def test_thinning_keeps_other_classes_and_spreads_its_own() -> None:
    found = mutants(kernel_text("\n".join([MMA] * 9 + [WAIT] * 9), ()), "k")
    kept = thinned(found, {"a-k-step+"}, 3)
    lines = [m.line for m in found if m.kind == "a-k-step+"]
    assert [m.line for m in kept if m.kind == "a-k-step+"] == lines[::3]
    assert len(kept) == len(found) - 6


PROGRAM = (
    "mov.u32 %r1, dyn; mov.u32 %r3, %tid.x;\n"
    + only(0, "mbarrier.init.shared.b64 [%r1], 32;\nfence.mbarrier_init.release.cluster;\n", "I")
    + "bar.sync 0, 64;\n"
    + "setp.ge.u32 %q5, %r3, 32;\n@%q5 bra READER;\n"
    + "st.shared.b32 [%r1+16], 7;\nmbarrier.arrive.shared.b64 %rd1, [%r1];\nbra.uni END;\n"
    + "READER:\n"
    + wait("%r1", 0, "W").replace(";", ";\n")
    + "\nld.shared.b32 %r5, [%r1+16];\nEND:\n"
)
HARMLESS = {
    "drop-fence-mbarrier_init": "no other CTA and no asynchronous work uses the barrier",
    "count-minus-one": "all lanes of the writer arrive in one instruction, after the write",
}
MODES = (("fast", 0), ("late", 0), *(("random", seed) for seed in range(6)))


def test_the_faults_of_a_small_program_are_found() -> None:
    """One writer warp, one reader warp, one mbarrier: every planted fault that is one shows."""
    shape: dict[str, Any] = {"block": 64, "shared": SMEM, "smem": 256, "checks": Check.ALL}
    assert run_ptx(PROGRAM, **shape).verdict == "clean"
    found = mutants(kernel_text(PROGRAM, (), shared=SMEM), "k")
    killed = set()
    for mutant in found:
        for mode, seed in MODES:
            if run_mutant(mutant, mode=mode, seed=seed, **shape) != "clean":
                killed.add(mutant.name)
                break
    survivors = {m.kind for m in found if m.name not in killed}
    assert survivors <= set(HARMLESS)
    kinds = {"drop-wait", "drop-arrive", "early-release", "count-plus-one", "drop-bar-sync"}
    assert kinds <= {m.kind for m in found}


def run_mutant(mutant: Mutant, **options: Any) -> str:
    """The verdict of a mutant of `PROGRAM`."""
    start = mutant.ptx.index("mov.u32 %r1, dyn")
    body = mutant.ptx[start : mutant.ptx.rindex("ret;")]
    report = run_ptx(body, raise_on_fault=False, max_idle_instructions=20_000, **options)
    return report.verdict
