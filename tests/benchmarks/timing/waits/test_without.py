"""Kernels without some of their instructions: rewriting, answers and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.timing.waits.without import CASES, SLOW, WITHOUT, chosen, left_out, main, show

FOLDER = Path("benchmarks/timing/waits")
CHIP, SAID = (
    json.loads((FOLDER / name).read_text()) for name in ("h200_without.json", "without.json")
)
PTX = """
ex2.approx.ftz.f32 	%r4, %r5;
max.ftz.NaN.f32 	%r6, %r7, %r8;
cvt.rn.bf16x2.f32 %r9, %r10, %r11;
shfl.sync.bfly.b32 	%r12, %r6, 1, 31, -1;
fma.rn.ftz.f32 	%r13, %r14, %r15, %r16;
add.f32 	%r17, %r18, %r19;
add.rm.ftz.f32 	%r20, %r21, %r22;
add.s32 	%r23, %r24, 1;
"""


def test_additions_stand_for_what_is_slow_and_the_rest_stays() -> None:
    changed = left_out(PTX, SLOW)
    assert "add.ftz.f32 	%r4, %r5, %r5;" in changed
    assert "add.ftz.f32 	%r6, %r7, %r8;" in changed
    assert "add.ftz.f32 %r9, %r10, %r11;" in changed
    assert changed.split("shfl")[1] == PTX.split("shfl")[1]
    assert left_out(PTX, ()) == PTX


def test_without_arithmetic_moves_are_left_and_integers_stay() -> None:
    changed = left_out(PTX, WITHOUT[" | no arithmetic"])
    assert [line.split()[0] for line in changed.strip().split("\n")] == [
        *["mov.b32"] * 6, "add.rm.ftz.f32", "add.s32",
    ]  # fmt: skip
    assert "mov.b32 	%r12, %r6;" in changed
    assert "mov.b32 	%r17, %r18;" in changed


def test_what_is_not_there_can_not_be_left_out() -> None:
    with pytest.raises(ValueError, match="no maxima to leave out"):
        left_out(PTX.replace("max.ftz", "min.ftz"), ("maxima",))


def test_every_kernel_has_every_kind_and_the_page_shows_them() -> None:
    names = {case.name + kind for case in CASES for kind in WITHOUT}
    assert set(SAID) == set(CHIP["cycles"]) == names
    assert len(list(chosen("48 keys"))) == len(WITHOUT)
    page = Path("docs/timing_probes.md").read_text()
    rows = list(show(CHIP, SAID))
    assert len(rows) == len(CASES)
    assert "\n".join(rows) in page


def test_products_alone_are_right_and_additions_are_too_cheap() -> None:
    """What the page says is found; where the machine learns of ports, this is to be asked again."""
    for case in CASES:
        errors = {
            kind: SAID[case.name + kind] / sorted(CHIP["cycles"][case.name + kind])[4] - 1
            for kind in WITHOUT
        }
        assert errors[" | none of them"] < -0.04
        if case.name != "fa4_cute d64-1024 one consumer":
            assert abs(errors[" | no arithmetic"]) < 0.016


def test_an_unknown_command_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure"]) == 64
    assert "run FOLDER OUT.json" in capsys.readouterr().err
