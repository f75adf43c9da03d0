"""The PTX that the CuTe DSL emits, against an independent reading (render.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sm100sim.ptx import Kernel, Reg, build_cfg, parse
from tests.sim.ptx.render import render, statements

FILES = sorted((Path(__file__).parent / "data").glob("*.ptx"))


def only_kernel(text: str) -> Kernel:
    (found,) = parse(text).kernels.values()
    return found


def body(text: str) -> str:
    """Text between the braces of the only kernel."""
    return text[text.index("{") + 1 : text.rindex("}")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_statement_is_read_as_written(path: Path) -> None:
    text = path.read_text()
    assert [render(ins) for ins in only_kernel(text).body] == statements(body(text))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_lines_hold_what_they_say(path: Path) -> None:
    text = path.read_text()
    lines = text.split("\n")
    for ins in only_kernel(text).body:
        assert f"{ins.opcode}" in lines[ins.line - 1]
        assert ins.text.split("\n")[0] in lines[ins.line - 1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_percent_registers_are_those_of_the_text(path: Path) -> None:
    text = path.read_text()
    named = set(re.findall(r"%(?:p|rs|r|rd)\d+\b", body(text)))
    found = {r.name for r in only_kernel(text).regs.values() if r.name.startswith("%")}
    assert found == named


def test_loop_of_scaled_add() -> None:
    k = only_kernel((FILES[0]).read_text())
    assert FILES[0].stem == "scaled_add"
    assert [(p.size, p.align, p.offset) for p in k.params] == [
        (16, 8, 0), (16, 8, 16), (4, 4, 32), (4, 4, 36),
    ]  # fmt: skip
    opcodes = [ins.opcode for ins in k.body]
    leave, otherwise, again = (i for i in range(len(opcodes)) if k.body[i].guard)
    meeting = build_cfg(k).reconverge
    assert opcodes[meeting[leave]] == "ret"
    assert k.body[meeting[otherwise]].line == k.body[again].line - 2
    assert meeting[again] == meeting[leave] == len(opcodes) - 1


def test_scopes_of_tmem_round_trip() -> None:
    k = only_kernel(FILES[1].read_text())
    assert FILES[1].stem == "tmem_round_trip"
    done = [r for r in k.regs.values() if r.name == "done"]
    lanes = [r for r in k.regs.values() if r.name.startswith("lane")]
    assert (len(done), len(lanes)) == (2, 4)
    waits = [ins for ins in k.body if ins.mods[:1] == ("try_wait",)]
    assert [w.operands[0] for w in waits] == done
    meeting = build_cfg(k).reconverge
    for wait in waits:
        jump, repeat = k.body[wait.index + 1 : wait.index + 3]
        assert (jump.target, repeat.target) == (wait.index + 3, wait.index)
        assert meeting[jump.index] == wait.index + 3
    store = next(ins for ins in k.body if ins.mods[:1] == ("st",) and ins.opcode == "tcgen05")
    assert [r for r in getattr(store.operands[1], "items", ()) if isinstance(r, Reg)] == lanes
