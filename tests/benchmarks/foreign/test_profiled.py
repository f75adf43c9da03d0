"""Which launches of a program the clocked machine follows."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.foreign import profiled
from benchmarks.foreign.cases import Case
from benchmarks.foreign.profiled import followed
from sm100sim.timing.sass.walk import Unmatched
from testing.harness import run_ptx


def case(*bodies: str, fault: bool = False) -> Case:
    def run() -> None:
        for body in bodies:
            run_ptx(body, np.zeros(32, np.uint32))
        if fault:
            raise RuntimeError("a comparison failed")

    return Case("mine", "here", 0.0, run)


STORE = "mov.u32 %r1, %tid.x;\nst.global.b32 [%p0], %r1;"


def test_each_kind_of_launch_is_followed_once() -> None:
    kinds = list(followed(case(STORE, STORE, "bar.sync 0;\n" + STORE)))
    assert [(kind.case, kind.kernel, kind.said) for kind in kinds] == [("mine", "k", "")] * 2
    assert all(kind.cycles is not None and kind.cycles > 0 for kind in kinds)
    assert str(kinds[0]).split()[1:] == ["mine", "k"]


def test_launches_before_a_fault_of_the_program_count() -> None:
    fault, kind = followed(case(STORE, fault=True))
    assert (fault.kernel, fault.cycles) == ("", None)
    assert "a comparison failed" in str(fault)
    assert kind.cycles is not None


def test_a_launch_that_is_not_followed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise Unmatched("no way leads there")

    monkeypatch.setattr(profiled, "profile_recording", refuses)
    (kind,) = followed(case(STORE))
    assert (kind.kernel, kind.cycles) == ("k", None)
    assert str(kind).split(maxsplit=1)[0] == "refused"
    assert kind.said == "Unmatched: no way leads there"
