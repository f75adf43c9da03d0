"""Instruction descriptors: constants of real kernels, shape rules, agreement with the engine."""

import ctypes as ct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm100sim.contract.codes import MMA_KINDS
from sm100sim.contract.records import InstrDesc
from sm100sim.engine.binding import load_engine
from testing.layouts.instr_desc import D_TYPES, OPERAND_CODES, InstrDescriptor, Kind

KINDS = tuple(OPERAND_CODES)


BF16 = InstrDescriptor("f16", 256, 128, "bf16", "bf16", group=2)
TF32 = InstrDescriptor("tf32", 128, 128, "tf32", "tf32", mn_major_a=True, mn_major_b=True)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x10200490, BF16),
        (0x10210490, replace(BF16, mn_major_b=True)),
        (0x08218490, replace(BF16, m=128, mn_major_a=True, mn_major_b=True)),
        (0x08218910, TF32),
        (0x08400010, InstrDescriptor("f8f6f4", 128, 256, "e4m3", "e4m3")),
        (0x08200010, InstrDescriptor("f16", 128, 128, "f16", "f16")),
        (0x08200010, InstrDescriptor("f8f6f4", 128, 128, "e4m3", "e4m3")),
    ],
)
def test_constants_emitted_by_the_dsl(word: int, expected: InstrDescriptor) -> None:
    assert InstrDescriptor.decode(word, expected.kind, expected.group) == expected
    assert expected.encode() == word


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 264}, "N = 264"),
        ({"n": 0}, "N = 0"),
        ({"m": 256}, "M = 256"),
        ({"m": 64, "group": 2}, "M = 64"),
        ({"n": 24, "group": 2}, "N = 24"),
        ({"d": "f16"}, "bf16 x bf16 -> f16"),
        ({"a": "f16"}, "f16 x bf16"),
        ({"a": "e4m3"}, "a = 'e4m3'"),
        ({"saturate": True}, "saturation"),
    ],
)
def test_what_a_kind_does_not_have_is_refused(changes: dict[str, Any], message: str) -> None:
    legal: dict[str, Any] = {"kind": "f16", "m": 128, "n": 128, "a": "bf16", "b": "bf16"}
    InstrDescriptor(**legal)
    with pytest.raises(ValueError, match=message):
        InstrDescriptor(**{**legal, **changes})


def test_8_bit_mn_major_b_needs_twice_the_n_step() -> None:
    InstrDescriptor("f8f6f4", 128, 24, "e4m3", "e4m3")
    with pytest.raises(ValueError, match="N = 24"):
        InstrDescriptor("f8f6f4", 128, 24, "e4m3", "e4m3", mn_major_b=True)


ENGINE_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "u8", "s8", "e2m1")
ENGINE_D = ("f16", "f32", "s32")


def engine_decode(word: int, kind: str, group: int) -> InstrDesc | None:
    out = InstrDesc()
    number = MMA_KINDS.index(kind)
    broken = load_engine().instr_desc_decode(word, number, group, False, ct.byref(out))
    return None if broken else out


@st.composite
def words(draw: st.DrawFn) -> tuple[int, Kind, int]:
    kind = draw(st.sampled_from(KINDS))
    types = st.sampled_from(list(OPERAND_CODES[kind]))
    group = draw(st.sampled_from([1, 2]))
    try:
        legal = InstrDescriptor(
            kind, draw(st.sampled_from([64, 128, 256])), 8 * draw(st.integers(1, 32)), draw(types),
            draw(types), draw(st.sampled_from(D_TYPES[kind])), group,
            mn_major_b=draw(st.booleans()),
        ).encode()  # fmt: skip
    except ValueError:
        legal = draw(st.integers(0, (1 << 32) - 1))
    for bit in draw(st.lists(st.integers(0, 31), max_size=2)):
        legal ^= 1 << bit
    return legal, kind, group


@pytest.mark.slow
@given(words())
@settings(max_examples=1500, deadline=None)
def test_engine_accepts_and_reads_the_same_words(drawn: tuple[int, Kind, int]) -> None:
    word, kind, group = drawn
    theirs = engine_decode(word, kind, group)
    try:
        mine = InstrDescriptor.decode(word, kind, group)
    except ValueError:
        assert theirs is None
        return
    assert theirs is not None
    assert (theirs.m, theirs.n, theirs.k) == (mine.m, mine.n, mine.k)
    assert ENGINE_TYPES[theirs.a] == mine.a
    assert ENGINE_TYPES[theirs.b] == mine.b
    assert ENGINE_D[theirs.d] == mine.d
    assert (theirs.neg_a, theirs.neg_b) == (mine.negate_a, mine.negate_b)
    assert (theirs.mn_a, theirs.mn_b) == (mine.mn_major_a, mine.mn_major_b)
    assert (theirs.sfa_id, theirs.sfb_id) == (mine.sfa_id, mine.sfb_id)
    if kind.startswith("mx"):
        assert theirs.ue8m0 == (mine.scale_type == "ue8m0")
