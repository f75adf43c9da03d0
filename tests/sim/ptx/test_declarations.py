"""Variables, parameters and kernel directives."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm100sim.ptx import GlobalVar, Unsupported, parse
from tests.sim.ptx.snippets import HEAD, kernel, refused, text

C_TYPES: dict[str, Any] = {
    "b8": ct.c_uint8, "u16": ct.c_uint16, "b32": ct.c_uint32, "f32": ct.c_float, "s64": ct.c_int64,
    "f64": ct.c_double,
}  # fmt: skip


def variables(declaration: str) -> list[GlobalVar]:
    return parse(HEAD + declaration).globals


def test_dynamic_shared_memory() -> None:
    assert variables(".extern .shared .align 1024 .b8 __dynamic_shmem__0[];") == [
        GlobalVar("__dynamic_shmem__0", "shared", 1024, 0, True, None, 4)
    ]


def test_sized_variables_take_their_alignment_from_the_type() -> None:
    found = variables(
        ".shared .b64 bar[2];\n.visible .global .align 16 .f32 t[2][3];\n.const .u16 c;"
    )
    assert [(v.name, v.space, v.align, v.size_bytes) for v in found] == [
        ("bar", "shared", 8, 16), ("t", "global", 16, 24), ("c", "const", 2, 2),
    ]  # fmt: skip


def test_managed_variables_are_global() -> None:
    """PTX ISA, "Variable and Function Attribute Directive: .attribute"."""
    (found,) = variables(".global .attribute(.managed) .align 4 .u32 launches;")
    assert (found.name, found.space, found.size_bytes) == ("launches", "global", 4)


def test_initial_values_are_little_endian_and_padded_with_zeros() -> None:
    found = variables(
        ".global .align 4 .b8 x[6] = {72, 0x65, 255};\n.const .u32 y[] = {1, -1};\n"
        ".global .f32 z = 0f3F800000;\n.global .b64 w = 0x0102030405060708;"
    )
    assert [v.init for v in found] == [
        b"\x48\x65\xff\0\0\0", b"\1\0\0\0\xff\xff\xff\xff", b"\0\0\x80\x3f", bytes(range(8, 0, -1)),
    ]  # fmt: skip
    assert found[1].size_bytes == 8


def test_shared_variables_inside_a_kernel() -> None:
    k = kernel(".shared .align 8 .b64 bar;\n{ .shared .b8 tile[64]; st.shared.b8 [tile], %r1; }")
    assert [(v.name, v.size_bytes, v.line) for v in k.shared] == [("bar", 8, 9), ("tile", 64, 10)]


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        (".global .b8 x[];", "x has no size"),
        (".global .b8 x[2][0];", "x has an empty dimension"),
        (".global .b8 x[2] = {1, 2, 3};", "x has 2 elements, more are given"),
        (".global .b8 x = 256;", "initial value '256' is not a .b8"),
        (".global .b8 x = -129;", "initial value '-129' is not a .b8"),
        (".global .f32 x = 1;", "initial value '1' is not a .f32"),
        (".global .u32 x = other;", "initial value 'other' is not a .u32"),
        (".global .u64 x = {};", "initial value '' is not a .u64"),
        (".shared .b8 x = 1;", "x: .shared memory has no initial value"),
        (".shared .align 3 .b8 x;", "alignment 3 is not a power of two"),
        (".shared .pred x;", "type .pred has no place in memory"),
        (".shared .b7 x;", "type .b7 has no place in memory"),
        (".global .align 999999999999999999999 .b8 x;", "999999999999999999999 is too large"),
        (".texref x;", "declaration is not understood"),
        (".alias f, g;", "function g is not declared"),
        (".local .b8 x[4];", ".local outside of a function"),
        (".global .b8 x; .global .b8 x;", "x is declared twice"),
        ("nonsense", "statement does not end with ';'"),
    ],
)
def test_refused_variables(declaration: str, reason: str) -> None:
    error = refused(HEAD + declaration)
    assert (error.line, error.what) == (4, reason)


def test_variables_of_another_module_are_unsupported() -> None:
    assert isinstance(refused(HEAD + ".extern .global .b8 x[4];"), Unsupported)


def test_a_variable_must_not_hide_another() -> None:
    hidden = text(".shared .b8 a;", module=".shared .b8 a;")
    assert refused(hidden).what == "a hides another variable"
    assert (
        refused(text(".shared .b8 a;", params=".param .b32 a")).what == "a hides another variable"
    )
    shadowed = text("", module=".shared .b8 a;", params=".param .b32 a")
    assert refused(shadowed).what == "a hides another variable"
    twice = text("{ .shared .b8 a; } { .shared .b8 a; }")
    assert refused(twice).what == "a hides another variable"


def test_parameters_as_the_dsl_writes_them() -> None:
    k = kernel(
        "",
        params=(
            "\n\t.param .align 4 .b8 p_0[12],\n\t.param .u64 .ptr .global .align 16 p_1,\n"
            "\t.param .align 64 .b8 p_2[128],\n\t.param .f32 p_3,\n"
            "\t.param .u64 .ptr .align 1 p_4\n"
        ),
    )
    assert [(p.name, p.type.name, p.size, p.align, p.offset) for p in k.params] == [
        ("p_0", "b8", 12, 4, 0), ("p_1", "u64", 8, 8, 16), ("p_2", "b8", 128, 64, 64),
        ("p_3", "f32", 4, 4, 192), ("p_4", "u64", 8, 8, 200),
    ]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(sorted(C_TYPES)), st.integers(0, 9)), max_size=12))
def test_offsets_follow_the_c_struct_layout(kinds: list[tuple[str, int]]) -> None:
    declared, fields = [], []
    for k, (kind, count) in enumerate(kinds):
        declared.append(f".param .{kind} p{k}" + (f"[{count}]" if count else ""))
        fields.append((f"p{k}", C_TYPES[kind] * count if count else C_TYPES[kind]))
    struct = type("Layout", (ct.Structure,), {"_fields_": fields})
    found = kernel("", params=", ".join(declared)).params
    assert [p.offset for p in found] == [getattr(struct, p.name).offset for p in found]
    assert [p.size for p in found] == [getattr(struct, p.name).size for p in found]


@pytest.mark.parametrize(
    "params",
    [".param .b32", "b32 a", ".param .b32 a b", ".param .pred a", ".param .b32 a,",
     ".param .b8 a[]", ".param .b8 a[0]",
     ".param .b32 a, .param .b32 a", ".param .align 6 .b8 a[8]",
     ".param .u64 .qtr a", ".reg .b32 a"],
)  # fmt: skip
def test_refused_parameters(params: str) -> None:
    assert refused(text("", params=params)).line == 5


def test_directives() -> None:
    k = kernel(
        "",
        directives=".reqntid 512, 1, 1\n.minnctapersm 1 .maxnreg 128\n.reqnctapercluster 2\n"
        '.explicitcluster .maxclusterrank 8 .pragma "noreturn"; .noreturn',
    )
    assert k.directives == {
        "reqntid": (512, 1, 1), "minnctapersm": 1, "maxnreg": 128, "reqnctapercluster": (2, 1, 1),
        "explicitcluster": True, "maxclusterrank": 8, "noreturn": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "directive",
    [".reqntid", ".reqntid 1, 2, 3, 4", ".maxnreg 1, 2", ".explicitcluster 3", ".unknown 3", "junk",
     ".maxnreg 64 .maxnreg 64", ".maxnreg 64;", ".maxnreg 99999999999999999999",
     '.maxnreg "64";', ".maxnreg 99999999999", ".reqnctapercluster 0", ".reqntid 32, 0, 1",
     ".maxntid 65537", ".minnctapersm 70000"],
)  # fmt: skip
def test_refused_directives(directive: str) -> None:
    assert refused(text("", directives=directive)).line == 6
