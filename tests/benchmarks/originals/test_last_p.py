"""The changes to Modular's PTX that show the hole and close it."""

from __future__ import annotations

import pytest
import torch

from benchmarks.originals.cases import CASES
from benchmarks.originals.last_p import (
    P_STORED,
    delayed,
    mended,
    outcome,
    run_changed,
    told,
    waits_on,
)
from benchmarks.originals.programs import place

WAIT = """\tadd.s32 \t%r{0}, %r1, {1};
\t// begin inline asm
\t{{
\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%r{0}], %r{2};
\t}}
\t// end inline asm
"""
KERNEL = (
    ".extern .shared .align 128 .b8 mha_dynamic_shared_memory_1[];\n"
    + WAIT.format(3, 230416, 4)
    + WAIT.format(5, 230632, 6)
    + "tcgen05.st;\n"
    + WAIT.format(7, 230464, 8)
    + WAIT.format(3, 230416, 9)
)


def test_waits_are_known_by_the_offset_of_their_barrier() -> None:
    assert [(wait[1], wait[2]) for wait in waits_on(KERNEL, 230416)] == [
        ("%r3", "%r4"),
        ("%r3", "%r9"),
    ]
    with pytest.raises(ValueError, match="230400"):
        waits_on(KERNEL, 230400)


def test_a_delay_comes_after_the_first_wait() -> None:
    text = delayed(KERNEL, 230416, 77)
    assert text.index("%late, 77") < text.index("230632")
    assert text.index("%late, 77") > text.index("[%r3], %r4")


def test_the_mend_waits_for_the_phase_before_that_of_s() -> None:
    text = mended(KERNEL)
    wait = text.index("xor.b32 %before, %r8, 1;")
    assert text.index("[%r5], %r6") < wait < text.index("tcgen05.st;")
    assert "mov.b32 %o1, mha_dynamic_shared_memory_1;\nadd.s32 %o1, %o1, 230576;" in text


def test_the_hole_is_there_and_closes() -> None:
    """docs/findings/modular_2q_last_p.md, on the kernel itself."""
    original = CASES[0]
    if not place("26.7", original.program, original.definitions).is_file():
        pytest.skip("Modular's kernels are not built here: make originals")
    right, heard = run_changed("26.7", str)
    assert told(heard) == "race-tmem 8, mbarrier-phase-overrun 1"
    out, closed = run_changed("26.7", mended)
    assert torch.equal(out, right)
    assert told(closed) == "none of them"
    assert "rows differ" in outcome("26.7", str, right, mode="late")
    assert outcome("26.7", mended, right, mode="late") == "same bits"
    offset = P_STORED["P1, second part"]
    assert "rows differ" in outcome("26.7", lambda ptx: delayed(ptx, offset, 5000), right)
    late = outcome("26.7", lambda ptx: delayed(mended(ptx), offset, 5000), right)
    assert late == "same bits"
