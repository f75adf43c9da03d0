"""Device functions, call sites and the tables that they name."""

from __future__ import annotations

import pytest

from sm100sim.ptx import Reg, Symbol, parse
from sm100sim.ptx.errors import PtxError
from tests.sim.ptx.snippets import HEAD, refused, text

FUNCTION = """
.func (.param .align 8 .b8 r[12]) f(.param .b8 a, .param .align 16 .b8 b[20], .reg .b32 c)
{ .reg .b32 %x; { .param .b32 p; .param .b64 q; st.param.b32 [p], c; } { .param .b32 p; } ret; }
"""


def test_a_function_is_read_with_its_parameters_placed() -> None:
    head = parse(HEAD + FUNCTION).functions["f"]
    assert head.body is not None
    function = head.body()
    (result,) = function.signature.results
    a, b, c = function.signature.params
    assert [(p.offset, p.size, p.align) for p in (result, a, b, c)] == [
        (0, 12, 8), (12, 1, 1), (16, 20, 16), (36, 4, 4)
    ]  # fmt: skip
    assert function.signature.size == 40
    assert isinstance(c.reg, Reg)
    assert c.reg in function.regs.values()
    assert list(function.call_params.values()) == [(0, 4), (8, 8), (0, 4)], "sequences share bytes"
    assert head.body() is function, "read once"


def test_functions_are_numbered_in_the_order_of_their_declaration() -> None:
    declared = ".func f(); .extern .func g(); .func h() { ret; } .func f() { ret; } .alias g, h;"
    functions = parse(HEAD + declared).functions
    assert {name: head.number for name, head in functions.items()} == {"f": 0, "g": 1, "h": 2}
    assert functions["g"].body is functions["h"].body
    assert functions["f"].body is not None


def test_a_broken_function_fails_when_it_is_read() -> None:
    head = parse(HEAD + ".func f(.param .b32 a, .param .b8 b[]) { nonsense %x; }").functions["f"]
    with pytest.raises(PtxError, match="nonsense"):
        head.signature()
    assert refused(HEAD + ".func f() { ret; } .func f() { ret; }").what.endswith("defined twice")


def test_a_call_names_function_arguments_and_results() -> None:
    body = "{ .param .b32 a; .param .b32 b; call (b), f, (a, 3, %r1); call f, (); call.uni f; }"
    sites = [i.call for i in parse(text(body, module=FUNCTION)).kernels["k"].body]
    first, second, third = (site for site in sites if site)
    assert first.callee == Symbol("f")
    assert [str(getattr(x, "name", getattr(x, "value", ""))) for x in first.arguments] == [
        "a.0", "3", "%r1"
    ]  # fmt: skip
    assert first.results == (Symbol("b.1"),)
    assert second == third


def test_an_indirect_call_names_a_prototype_or_its_targets() -> None:
    body = (
        "P: .callprototype (.param .b32 _) _ (.param .b64 _);\nT: .calltargets f;"
        "{ .param .b32 r; .param .b64 a; call (r), %d1, (a), P; call %d1, T; }"
    )
    module = parse(text(body, module=FUNCTION))
    first, second = (i.call for i in module.kernels["k"].body if i.call)
    assert isinstance(first.callee, Reg)
    assert first.signature is not None
    assert [p.size for p in (*first.signature.results, *first.signature.params)] == [4, 8]
    assert second.targets == ("f",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("call (nobody), f, (1);", "nobody is not declared"),
        ("call 7;", "call names neither a function nor a register"),
        ("call f, (1), P;", "P is neither a list of targets nor a prototype"),
        ("call (%r1);", "call names no target"),
        ("P: .callprototype 7 f;", "call prototype is not understood"),
        ("brx.idx %r1, T;", "'T' is not a list of branch targets"),
        ("T: .branchtargets f; brx.idx %r1, T;", "'T' is not a list of branch targets"),
        (".param .pred p;", "parameter declaration is not understood"),
    ],
)
def test_calls_that_cannot_be_read(body: str, reason: str) -> None:
    assert refused(text(body, module=FUNCTION)).what == reason


def test_tables_belong_to_their_scope() -> None:
    one = "{{ T: .branchtargets {0}, {0}; brx.idx %r1, T; {0}: mov.b32 %r1, 1; }}"
    body = parse(text(one.format("A") + one.format("B"))).kernels["k"].body
    assert [i.table for i in body if i.opcode == "brx"] == [(1, 1), (3, 3)]


def test_initial_values_that_are_addresses() -> None:
    declared = FUNCTION + ".global .u64 x[4] = {0, f, generic(y)+8, -1};"
    x = parse(HEAD + declared).globals[0]
    assert x.links == ((8, "f", 0), (16, "y", 8))
    assert x.init is not None
    assert len(x.init) == 32
