"""Every operand form of PTX ISA, "Instruction Operands" and "Constants"."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm100sim.ptx import (
    Address,
    Imm,
    NotPred,
    PredPair,
    Reg,
    Sink,
    SpecialReg,
    Symbol,
    TensorAddress,
    Vector,
)
from sm100sim.ptx.operands import SPECIAL_REGISTERS, OperandError, literal, operand, split_top
from tests.sim.ptx.snippets import instruction, refused, text


def name(value: object) -> str:
    assert isinstance(value, Reg | Symbol | SpecialReg)
    return value.name


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("-16777224", -16777224),
        ("0x40004040", 0x40004040),
        ("0XfFu"[:-1], 255),
        ("0b101", 5),
        ("017", 15),
        ("7U", 7),
        ("0x7U", 7),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_integer_literals(written: str, value: int) -> None:
    assert literal(written) == Imm(value, "int", written)


@pytest.mark.parametrize(
    "written", ["089", "0x", "1U2", "0b2", "abc", "1e", "0f3F8000", "٣", "1_0", ""]
)
def test_not_a_literal(written: str) -> None:
    assert literal(written) is None


@pytest.mark.parametrize("written", ["18446744073709551616", "-9223372036854775809", "1e999"])
def test_literal_beyond_64_bits_is_refused(written: str) -> None:
    with pytest.raises(OperandError, match=written):
        literal(written)


@given(st.integers(0, 2**32 - 1))
def test_single_precision_bits_are_kept(bits: int) -> None:
    assert literal(f"0f{bits:08X}") == Imm(bits, "f32", f"0f{bits:08X}")
    found = literal(f"-0F{bits:08x}")
    assert found is not None
    assert found.value == bits ^ 0x80000000


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_numbers_are_doubles(value: float) -> None:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    assert literal(f"0d{bits:016x}") == Imm(bits, "f64", f"0d{bits:016x}")
    found = literal(f"{value:.17e}")
    assert found is not None
    assert (found.value, found.kind) == (bits, "f64")


def test_addresses() -> None:
    forms = {
        "[%r1]": ("%r1", 0),
        "[%r1+8]": ("%r1", 8),
        "[%r1 + 0x8]": ("%r1", 8),
        "[%r1+-8]": ("%r1", -8),
        "[%d1-16]": ("%d1", -16),
        "[buf]": ("buf", 0),
        "[ a + 4 ]": ("a", 4),
    }
    for written, (base, offset) in forms.items():
        (_, found) = instruction(f"ld.shared.b32 %r0, {written};").operands
        assert isinstance(found, Address)
        assert (name(found.base), found.offset) == (base, offset)
    (_, absolute) = instruction("ld.shared.b32 %r0, [64];").operands
    assert absolute == Address(Imm(64, "int", "64"), 0)


def test_tensor_address_and_further_operands() -> None:
    ins = instruction(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
        ".L2::cache_hint"
        " [%r1+16], [%d1, {%r2,\n %r3}], [%r4], %d2;"
    )
    assert ins.mods[3:6] == ("2d", "shared::cta", "global")
    into, tensor, barrier, hint = ins.operands
    assert isinstance(tensor, TensorAddress)
    assert isinstance(into, Address)
    assert isinstance(barrier, Address)
    assert (name(into.base), name(tensor.base.base), name(hint)) == ("%r1", "%d1", "%d2")
    assert [name(c) for c in tensor.coords.items] == ["%r2", "%r3"]


def test_vectors_sinks_and_symbols() -> None:
    pack = instruction("mov.b64 %d0, {%r1, 0x40004040};").operands
    assert isinstance(pack[1], Vector)
    assert pack[1].items[1] == Imm(0x40004040, "int", "0x40004040")
    unpack = instruction("mov.b64 {_, %r2}, %d0;").operands
    assert isinstance(unpack[0], Vector)
    assert unpack[0].items[0] == Sink()
    assert instruction("mov.b64 %d0, map;").operands[1] == Symbol("map")
    assert instruction("mbarrier.arrive.shared::cluster.b64 _, [%r1], 2;").operands[0] == Sink()
    wide = ", ".join(f"%r{k}" for k in range(32))
    (values, _) = instruction(f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{wide}}}, [%r0];").operands
    assert isinstance(values, Vector)
    assert [name(v) for v in values.items] == [f"%r{k}" for k in range(32)]


def test_predicates() -> None:
    (pair, mask) = instruction("elect.sync _|%p1, -1;").operands
    assert isinstance(pair, PredPair)
    assert (pair.a, name(pair.b)) == (Sink(), "%p1")
    assert mask == Imm(-1, "int", "-1")
    both = instruction("elect.sync %r1|%p1, 0xffffffff;").operands[0]
    assert isinstance(both, PredPair)
    assert (name(both.a), name(both.b)) == ("%r1", "%p1")
    last = instruction("setp.ne.and.b32 %p1, %r1, 0, !%p2;").operands[-1]
    assert isinstance(last, NotPred)
    assert last.reg.name == "%p2"
    assert instruction("mov.pred %p1, -1;").operands[1] == Imm(-1, "int", "-1")


def test_special_registers() -> None:
    assert instruction("mov.u32 %r1, %tid.x;").operands[1] == SpecialReg("%tid.x")
    assert instruction("mov.u32 %r1, WARP_SZ;").operands[1] == Imm(32, "int", "WARP_SZ")
    assert {"%cluster_ctarank", "%nclusterid.z", "%clock64"} <= SPECIAL_REGISTERS


def test_float_immediate_in_an_instruction() -> None:
    assert instruction("add.f32 %r1, %r2, 0fBFC00000;").operands[2] == Imm(
        0xBFC00000, "f32", "0fBFC00000"
    )


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("add.s32 %r1, %r2,;", "an operand is missing"),
        ("add.s32 %r1, , %r2;", "an operand is missing"),
        ("add.s32 %r1, %r2 %r3;", "operand '%r2 %r3' is not understood"),
        ("mov.b32 %r1, %r32;", "%r32 is neither declared"),
        ("mov.b32 %r1, %r01;", "%r01 is neither declared"),
        ("mov.b32 %r1, %tid;", "%tid is neither declared"),
        ("mov.b32 %r1, elsewhere;", "elsewhere is not declared"),
        ("mov.b32 %r1, buf+4;", "operand 'buf+4' is not understood"),
        ("ld.shared.b32 %r1, [%r2+%r3];", "address [%r2+%r3] is not understood"),
        ("ld.shared.b32 %r1, [%r2+0f00000000];", "is not an integer"),
        ("ld.shared.b32 %r1, [%tid.x];", "neither a register nor a variable"),
        ("ld.shared.b32 %r1, [];", "is not understood"),
        ("ld.shared.b32 %r1, [%d1, %r2];", "tensor coordinate"),
        ("ld.shared.b32 %r1, [%r2;", "']' is missing"),
        ("ld.shared.b32 %r1, %r2];", "operand '%r2]' is not understood"),
        ("ld.shared.b32 %r1, [{%r2]};", "does not match an opening"),
        ("mov.b64 %d1, {};", "an operand is missing"),
        ("mov.b64 %d1, {[%r1], %r2};", "something else than values"),
        ("elect.sync 1|%p1, -1;", "not a pair of destinations"),
        ("and.pred %p1, %p2, !%r1;", "is not understood"),
        ("mov.b64 %d1, 0x1ffffffffffffffff;", "does not fit"),
        ("mov.b32 %r1, (4);", "is not understood"),
    ],
)
def test_refusals(statement: str, reason: str) -> None:
    error = refused(text(statement, module=".extern .shared .b8 buf[];"))
    assert error.line == 9
    assert reason in error.what


def test_split_respects_brackets() -> None:
    assert split_top("a, b") == ["a", "b"]
    assert split_top("[a, {b, c}], (d, e), f") == ["[a, {b, c}]", "(d, e)", "f"]
    with pytest.raises(OperandError):
        split_top("(a, b]")


@given(st.text(alphabet="%r1[]{}(),+-!|_ .x0fbuf", max_size=24))
def test_operand_raises_only_its_own_error(written: str) -> None:
    with suppress(OperandError):
        operand(written, lambda _: None)
