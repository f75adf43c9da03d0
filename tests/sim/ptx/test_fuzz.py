"""Damaged text raises `PtxError` and nothing else, and undamaged parts are not blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sm100sim.ptx import Module, PtxError, build_cfg, parse
from tests.sim.ptx.snippets import HEAD, text

SAMPLE = (Path(__file__).parent / "data" / "tmem_round_trip.ptx").read_text()
SMALL = text(
    ".shared .align 8 .b64 bar[2]; .reg .v2 .b32 two; .reg .b64 desc_<4>; // words\n"
    'L0: @!%p1 bra L1; .pragma "nounroll"; .loc 1 2 3\n'
    "{ .reg .pred d; L0: elect.sync _|d, -1; @d bra L1; bra L0; L1: }\n"
    "cp.async.bulk.tensor.2d.shared::cta.global.tile [%r1+16],\n"
    "[%d1, {%r2, -3}], [bar], 0f3F800000;\n"
    "L1: mov.b64 {_, two.x}, desc_3; /* two\nlines */ add.f32 %r1, 1.5e3, 0d3FF0000000000000; ret;",
    params=".param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 p",
    directives=".reqntid 32, 1, 1 .minnctapersm 1",
    module=".extern .shared .align 1024 .b8 dyn[];\n.global .b8 s[4] = {1, 2};",
)
WORDS = r"""{ } [ ] ( ) ; , : :: . % @ ! | _ " ' // /* */ < > 0x 0f - + = \ $ u é ٣ %r1 L0
.reg .b32 .v4 .param .func .entry .shared .loc call brx ret; .pred .extern"""
SPACED = ("\n", " ", "\0", "9" * 30, "bra ", ".local ", ".section x {")
PIECES = st.sampled_from([*WORDS.split(), *SPACED])


def parsed(source: str) -> Module | PtxError:
    try:
        return parse(source)
    except PtxError as error:
        return error


def read(source: str) -> None:
    """Parse and analyse; only `PtxError` may come out, with a line of the text."""
    outcome = parsed(source)
    if isinstance(outcome, PtxError):
        assert 1 <= outcome.line <= source.count("\n") + 1
        assert all(word in source for word in outcome.text.split())
        assert outcome.column <= len(outcome.text)
        return
    for kernel in outcome.kernels.values():
        cfg = build_cfg(kernel)
        assert all(0 <= at <= len(kernel.body) for at in cfg.reconverge.values())
        assert all(ins.target is not None for ins in kernel.body if ins.opcode == "bra")


@st.composite
def damaged(draw: st.DrawFn, source: str) -> str:
    """`source` with up to three pieces cut out, doubled, moved or replaced."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(source)))
        end = min(len(source), start + draw(st.integers(0, 12)))
        middle = draw(st.one_of(PIECES, st.just(""), st.just(source[start:end] * 2)))
        source = source[:start] + middle + source[end:]
    return source


def test_the_samples_themselves_are_read() -> None:
    assert len(parse(SMALL).kernels["k"].body) == 8
    assert parse(SAMPLE).kernels


@pytest.mark.slow
@settings(max_examples=600, deadline=None, derandomize=True)
@given(damaged(SMALL))
def test_damaged_small_module(source: str) -> None:
    read(source)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(damaged(SAMPLE))
def test_damaged_compiled_module(source: str) -> None:
    read(source)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, len(SMALL)))
def test_truncated_module(length: int) -> None:
    read(SMALL[:length])


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=30).map("".join))
@example(".entry k(")
@example(".entry k() {" + "{" * 5000)
def test_token_soup(soup: str) -> None:
    read(HEAD + soup)
    read(text(soup))
