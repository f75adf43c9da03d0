"""Registers, variables and labels of nested scopes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm100sim.ptx import TYPES, Instr, Reg, Vector
from sm100sim.ptx.scopes import Registers, Scope
from tests.sim.ptx.snippets import kernel, refused, text


def regs(ins: Instr) -> list[Reg]:
    return [o for o in ins.operands if isinstance(o, Reg)]


def test_inner_declaration_hides_the_outer_one_until_its_brace() -> None:
    body = kernel(
        ".reg .b32 t; mov.b32 t, 1; { .reg .b64 t; mov.b64 t, 2; { mov.b64 t, 3; } } mov.b32 t, 4;"
    ).body
    first, second, third, fourth = (regs(ins)[0] for ins in body)
    assert first == fourth
    assert second == third
    assert first.id != second.id
    assert (first.type.bits, second.type.bits) == (32, 64)


def test_same_names_in_sibling_scopes_are_different_registers() -> None:
    k = kernel("{ .reg .pred done; mov.pred done, 1; }\n" * 5)
    ids = [regs(ins)[0].id for ins in k.body]
    assert len(set(ids)) == 5
    assert [k.regs[i].name for i in ids] == ["done"] * 5


def test_function_scope_range_without_percent_persists() -> None:
    body = kernel(
        ".reg .b32 desc_lo; .reg .b64 desc_<8>; mov.b64 desc_0, {%r1, 0x40004040};\n"
        "{ .reg .b32 lo; mov.b64 {lo, _}, desc_7; } mov.b64 %d0, desc_0; mov.b32 desc_lo, 1;"
    ).body
    written, read = regs(body[0])[0], regs(body[2])[1]
    assert written == read
    assert regs(body[1])[0].name == "desc_7"
    assert regs(body[3])[0].type.bits == 32


def test_ids_are_dense_and_only_for_registers_in_use() -> None:
    k = kernel(".reg .b32 %big<100000>; mov.b32 %big99999, %r3; mov.b32 %r3, %big99999;")
    assert sorted(k.regs) == [0, 1]
    assert [r.name for r in k.regs.values()] == ["%big99999", "%r3"]


@pytest.mark.parametrize(
    "kind", ["pred", "b16", "b32", "b64", "b128", "f32", "f64", "s32", "u16", "f16x2"]
)
def test_register_types_and_widths(kind: str) -> None:
    expected = {"pred": 1, "f16x2": 32}.get(kind) or int(kind[1:])
    (reg,) = regs(kernel(f".reg .{kind} only; anything only;").body[0])
    assert (reg.type.name, reg.type.bits) == (kind, expected)


def test_vector_registers_are_their_components() -> None:
    body = kernel(".reg .v4 .s32 quad; mov.s32 quad.y, %r1; use quad, quad.g;").body
    y = regs(body[0])[0]
    vector, green = body[1].operands
    assert isinstance(vector, Vector)
    assert [getattr(r, "name", None) for r in vector.items] == [
        "quad.x",
        "quad.y",
        "quad.z",
        "quad.w",
    ]
    assert vector.items[1] == y == green
    assert refused(text(".reg .v2 .b32 two; mov.b32 two.z, 1;")).what.startswith("two.z")


def test_labels_resolve_from_the_innermost_scope_outwards() -> None:
    body = kernel("T: nop; { T: nop; bra T; bra OUT; { bra T; } } bra T; OUT: ret;").body
    assert [ins.target for ins in body] == [None, None, 1, 6, 1, 0, None]


def test_repeated_inline_assembly_keeps_its_own_labels() -> None:
    block = "{ .reg .pred d; TRY: test d; @d bra END; bra TRY; END: }\n"
    body = kernel(block * 3 + "ret;").body
    assert [ins.target for ins in body] == [None, 3, 0, None, 6, 3, None, 9, 6, None]


def test_label_of_a_closed_scope_is_not_visible() -> None:
    error = refused(text("{ IN: nop; }\nbra IN;"))
    assert (error.line, error.what) == (10, "label 'IN' is not declared")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (".reg .b32 t; .reg .b32 t;", "t is declared twice"),
        (".reg .b32 %r5;", "%r5 is declared twice"),
        (".reg .b32 x1; .reg .b32 x<4>;", "x<4> is declared twice"),
        (".reg .b32 x<20>; .reg .b32 x1<5>;", "x1<5> is declared twice"),
        (".reg .b32 x1<5>; .reg .b32 x<20>;", "x<20> is declared twice"),
        ("L: nop; L: nop;", "label L is declared twice"),
        ("{ .reg .b32 in; } mov.b32 in, 1;", "in is not declared"),
        (".reg .b7 t;", "register type .b7 is not understood"),
        (".reg .b32 1t;", "register name '1t' is not understood"),
        (".reg .b32 t<0>;", "register name 't<0>' is not understood"),
        (".reg .v2 .b32 t<4>;", "register name 't<4>' is not understood"),
        (".reg .b32;", "register declaration is not understood"),
        ("bra NOWHERE;", "label 'NOWHERE' is not declared"),
        ("bra %r1;", "label '%r1' is not declared"),
        ("bra;", "label '' is not declared"),
    ],
)
def test_refusals(body: str, reason: str) -> None:
    error = refused(text(body))
    assert (error.line, error.what) == (9, reason)


@given(st.integers(1, 300), st.integers(0, 400), st.sampled_from(["r", "r1", "r10_", "%q"]))
def test_range_declares_exactly_its_numbers(count: int, number: int, prefix: str) -> None:
    scope, registers = Scope(None), Registers()
    registers.declare_range(scope, prefix, count, TYPES["b32"])
    assert (registers.find(scope, f"{prefix}{number}") is not None) == (number < count)
    assert registers.find(scope, f"{prefix}0{number}") is None
    assert registers.find(scope, prefix) is None
