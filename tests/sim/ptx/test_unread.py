"""A module whose kernels are read when somebody asks for them."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import pytest

from sm100sim.ptx import parser
from sm100sim.ptx.body import Body
from sm100sim.ptx.collection import paused
from sm100sim.ptx.errors import PtxError
from sm100sim.run import prepare

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
GOOD = ".entry good(.param .b32 n)\n.reqntid 32\n{ .reg .b32 %r<2>; ld.param.b32 %r1, [n]; ret; }\n"
BAD = ".entry bad()\n{ mov.b32 %r1, ;\n}\n"
MODULE = HEAD + GOOD + BAD


def test_what_a_launch_does_not_name_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def heard(source: Any, visible: list[str]) -> object:
        read.append(visible)
        return Body(source, visible)

    monkeypatch.setattr(parser, "Body", heard)
    module = parser.parse(MODULE, bodies=False)
    assert list(module.kernels) == ["good", "bad"]
    head = module.kernels["good"]
    assert (head.name, head.line, head.directives["reqntid"]) == ("good", 4, (32, 1, 1))
    assert [p.size for p in head.params] == [4]
    assert not read
    assert head.whole() == parser.parse(HEAD + GOOD).kernels["good"]
    assert len(read) == 2
    assert [ins.opcode for ins in head.body] == ["ld", "ret"]
    assert len(head.regs) == 1
    assert len(read) == 3


def test_a_kernel_that_cannot_be_read_fails_when_it_is_prepared() -> None:
    assert len(prepare(MODULE, "good").code) == 2
    with pytest.raises(PtxError, match="line 8"):
        prepare(MODULE, "bad")
    with pytest.raises(PtxError, match="line 8"):
        parser.parse(MODULE)
    assert not hasattr(parser.parse(MODULE, bodies=False).kernels["good"], "nothing")


def test_a_brace_that_is_not_closed_is_seen_at_once() -> None:
    with pytest.raises(PtxError, match="not closed"):
        parser.parse(HEAD + GOOD + ".entry open() { ret;", bodies=False)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_after_a_pause(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with contextlib.suppress(KeyError), paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
