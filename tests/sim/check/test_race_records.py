"""Reads of neighbouring elements share a record of the race checker; findings stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import run_ptx

ROW = """
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, 0; setp.eq.u32 %q1, %r2, 0; @%q1 bra W;
"""
READ = """
mov.u64 %rd1, %p0;
L: ld.global.{type} {register}, [%rd1]; add.u64 %rd1, %rd1, {bytes}; add.u32 %r3, %r3, 1;
setp.lt.u32 %q2, %r3, {count}; @%q2 bra L;
"""
WRITE = """
exit;
W: setp.ne.u32 %q3, %r1, 0; @%q3 exit; mov.u32 %r4, 0;
S: add.u32 %r4, %r4, 1; setp.lt.u32 %q4, %r4, 4000; @%q4 bra S;
mov.u64 %rd2, 1; mov.b32 %r9, 1; mov.b16 %h1, 1; st.global.{wide} [%p0+{at}], {value};
"""
TYPES = {1: ("b8", "%h1"), 2: ("b16", "%h1"), 4: ("b32", "%r9"), 8: ("b64", "%rd2")}


def raced(element: int, wide: int, at: int, warps: int = 2) -> Report:
    """One warp writes `wide` bytes; the others have read 16 bytes element by element."""
    kind, register = TYPES[element]
    stored, value = TYPES[wide]
    body = ROW + READ.format(type=kind, register=register, bytes=element, count=16 // element)
    body += WRITE.format(wide=stored, value=value, at=at)
    words = np.zeros(64, np.uint32)
    return run_ptx(body, words, block=32 * warps, checks=Check.RACES)


@pytest.mark.parametrize("element", [1, 2, 4, 8])
@pytest.mark.parametrize(("wide", "at"), [(8, 0), (8, 8), (4, 4), (2, 6)])
@pytest.mark.parametrize("warps", [2, 4])
def test_each_read_that_a_write_meets_counts(element: int, wide: int, at: int, warps: int) -> None:
    (finding,) = raced(element, wide, at, warps).findings
    assert finding.code == "race-global"
    assert finding.count == (warps - 1) * max(wide // element, 1)


def test_a_gemm_of_many_warps_loses_no_record() -> None:
    """32 warps read the eight elements of 16 bytes: more reads than a cell has records."""
    half = np.zeros(4096, np.uint16)
    body = """mov.u32 %r3, 0; mov.u64 %rd1, %p0;
    L: ld.global.b16 %h1, [%rd1]; add.u64 %rd1, %rd1, 2; add.u32 %r3, %r3, 1;
    setp.lt.u32 %q2, %r3, 64; @%q2 bra L;"""
    report = run_ptx(body, half, grid=(3, 1, 1), block=1024, checks=Check.ALL, threads=1)
    assert (report.verdict, report.complete) == ("clean", True)


def test_clusters_that_read_the_same_elements_are_each_others_past() -> None:
    """Of four clusters the last one writes what the others have read in pieces.

    The first two share their records, the third has its own: four elements of each are met.
    """
    words = np.zeros(64, np.uint32)
    body = """mov.u32 %r1, %ctaid.x; mov.u32 %r3, 0; mov.u64 %rd1, %p0;
    setp.eq.u32 %q1, %r1, 3; @%q1 bra W;
    L: ld.global.b16 %h1, [%rd1]; add.u64 %rd1, %rd1, 2; add.u32 %r3, %r3, 1;
    setp.lt.u32 %q2, %r3, 8; @%q2 bra L; exit;
    W: st.global.b64 [%p0], %rd1;"""
    (finding,) = run_ptx(body, words, grid=(4, 1, 1), block=1, checks=Check.RACES).findings
    assert (finding.code, finding.count) == ("race-global", 8)


@pytest.mark.parametrize(("meets", "count"), [("", 2), ("bar.sync 1, 64;", 1)])
def test_a_reader_that_has_heard_of_another_stands_for_it(meets: str, count: int) -> None:
    """Two warps read a word, perhaps meet, and the second reads it again; a third one writes it."""
    body = f"""mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %q1, %r2, 2; @%q1 bra W;
    mul.lo.u32 %r3, %r2, 100; mov.u32 %r4, 0;
    D: add.u32 %r4, %r4, 1; setp.lt.u32 %q4, %r4, %r3; @%q4 bra D;
    ld.shared.b32 %r9, [word]; {meets} setp.eq.u32 %q2, %r2, 0; @%q2 exit;
    ld.shared.b32 %r9, [word]; ld.shared.b32 %r9, [word]; exit;
    W: mov.u32 %r4, 0; S: add.u32 %r4, %r4, 1; setp.lt.u32 %q4, %r4, 4000; @%q4 bra S;
    setp.ne.u32 %q3, %r1, 64; @%q3 exit; st.shared.b32 [word], %r4;"""
    shared = ".shared .align 4 .b32 word;"
    findings = run_ptx(body, block=96, checks=Check.RACES, shared=shared).findings
    assert {finding.code for finding in findings} == {"race-shared"}
    assert sum(finding.count for finding in findings) == count
