"""Planted faults of wgmma: what is edited and moved.

`tests/sim/host/test_hopper_gemm.py` plants them in a program and sees that each is noticed.
"""

from __future__ import annotations

import pytest

from sm100sim.mutate import mutants
from testing.harness import kernel_text
from tests.sim.test_mutate import ARRIVE, MMA, WAIT, has_faults, moved, offsets, scope

WGMMA = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1, %r2, %r3, %r4}, %rd1, %rd2, %q0, 1,"
    " 1, 0, 0;"
)
REGISTERS = WGMMA.replace("%rd1", "{%r5, %r6, %r7, %r8}").replace("%q0, 1, 1, 0, 0", "1, 1, 1, 0")
GROUP_WAIT = "wgmma.wait_group.sync.aligned 1;"
COMMIT = "wgmma.commit_group.sync.aligned;"
USE = "add.u32 %r9, %r2, 1;"


def descriptor(statement: str, position: str, name: str) -> dict[str, str]:
    """Wrong offsets of a descriptor, and that of another stage of 16 KiB."""
    changed = statement.replace(position, "mutant")
    other = scope("b64", f"add.s64 mutant, {position}, 1024", changed)
    return {**offsets(statement, position, name), f"{name}-wrong-stage": other}


STATEMENTS: dict[str, dict[str, str]] = {
    WGMMA: {
        "drop-wgmma": "",
        **descriptor(WGMMA, "%rd1", "a"),
        **descriptor(WGMMA, "%rd2", "b"),
        "flip-scale-d": WGMMA.replace("%q0", "!%q0"),
    },
    REGISTERS: {
        "drop-wgmma": "",
        **descriptor(REGISTERS, "%rd2", "b"),
        "flip-scale-d": REGISTERS.replace("%rd2, 1", "%rd2, 0"),
    },
    GROUP_WAIT: {"drop-wgmma-wait": "", "weaker-wgmma-wait": GROUP_WAIT.replace("1;", "2;")},
    "wgmma.fence.sync.aligned;": {"drop-wgmma-fence": ""},
    COMMIT: {"drop-wgmma-commit": ""},
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_has_its_faults(statement: str) -> None:
    has_faults(statement, STATEMENTS[statement])


def test_a_negated_scale_d_is_flipped_back() -> None:
    text = kernel_text(WGMMA.replace("%q0", "!%q0"), ())
    (flipped,) = [m for m in mutants(text, "k") if m.kind == "flip-scale-d"]
    assert flipped.ptx == kernel_text(WGMMA, ())


def test_an_early_commit_leaves_out_the_last_one() -> None:
    body = f"{WGMMA}\n{WGMMA}\n{COMMIT}"
    assert moved(body, "early-wgmma-commit") == [("", f"{{ {COMMIT} }} {WGMMA}")]
    assert moved(f"{MMA}\n{COMMIT}", "early-wgmma-commit") == []


def test_a_late_wait_stands_behind_the_first_use_of_d() -> None:
    other = "add.u32 %r9, %r8, 1;"
    body = f"{WGMMA}\n{GROUP_WAIT}\n{other}\n{USE}\nmov.u32 %r7, 0;"
    assert moved(body, "late-wgmma-wait") == [("", f"{GROUP_WAIT} mov.u32 %r7, 0;")]


@pytest.mark.parametrize(
    "body",
    [
        f"{GROUP_WAIT}\n{USE}\nret;",
        f"{WGMMA}\n{GROUP_WAIT}\n{WGMMA}\nret;",
        f"AGAIN:\n{WGMMA}\n{GROUP_WAIT}\n@%q1 bra AGAIN;\n{USE}\nret;",
    ],
)
def test_no_late_wait_without_a_use_in_its_block(body: str) -> None:
    assert moved(body, "late-wgmma-wait") == []


def test_an_early_release_goes_in_front_of_the_wait() -> None:
    wait_for = "wgmma.wait_group.sync.aligned 0;"
    body = f"W:\n{WAIT}\n@!%q0 bra W;\n{wait_for}\n{ARRIVE}"
    ((_, new),) = moved(body, "early-release")
    assert new == f"{{ {ARRIVE} }} {wait_for}"
