"""Modules, kernels and instructions."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from sm100sim.ptx import Guard, parse
from tests.sim.ptx.snippets import HEAD, instruction, kernel, refused, text

PRINTF = (
    ".extern .func  (.param .b32 func_retval0) vprintf\n(\n.param .b64 a,\n.param .b64 b\n)\n;\n"
)
CALL = """{ // callseq 0, 0
.param .b64 param0;
.param .b64 param1;
.param .b32 retval0;
st.param.b64 [param0], %d1;
call.uni (retval0), vprintf, (param0, param1);
} // callseq 0"""


def test_module_header_and_kernels() -> None:
    module = parse(
        "// a comment\n" + HEAD + ".visible .entry one() { ret; }\n.weak .entry two { exit; }\n"
    )
    assert (module.version, module.target, module.address_size) == ("8.8", "sm_100a", 64)
    assert list(module.kernels) == ["one", "two"]
    assert [module.kernels[k].line for k in ("one", "two")] == [5, 6]
    assert module.source[4] == ".visible .entry one() { ret; }"


def test_target_with_options() -> None:
    assert parse(HEAD.replace("sm_100a", "sm_100a, debug")).target == "sm_100a, debug"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", 1), ("\n\nhello", 3), (".version 8.8\n.address_size 64", 2),
        (".version 8\n.target sm_100a", 1),
        (".version 8.8\n.target sm_100a\n.entry k() {}", 3),
        (HEAD.replace("sm_100a", "sm_999zz"), 2), (HEAD.replace("sm_100a", "sm_1000"), 2),
        (HEAD.replace("sm_100a", "ptx"), 2),
        (HEAD.replace("64", "32"), 3), (HEAD + HEAD, 4), (HEAD + "\0", 4),
    ],
)  # fmt: skip
def test_refused_headers(source: str, line: int) -> None:
    assert refused(source).line == line


def test_instruction_fields() -> None:
    ins = instruction("  @!%p3 tcgen05.mma.cta_group::2.kind::f16 [%r1 + 0x8],\n %d1, %d2, %r2, 1;")
    assert ins.opcode == "tcgen05"
    assert ins.mods == ("mma", "cta_group::2", "kind::f16")
    assert isinstance(ins.guard, Guard)
    assert (ins.guard.reg.name, ins.guard.reg.type.bits, ins.guard.negated) == ("%p3", 1, True)
    assert len(ins.operands) == 5
    assert (ins.index, ins.line, ins.target) == (0, 9, None)
    assert ins.text == "@!%p3 tcgen05.mma.cta_group::2.kind::f16 [%r1 + 0x8],\n %d1, %d2, %r2, 1"


def test_instructions_without_operands() -> None:
    body = kernel("ret; exit; tcgen05.wait::ld.sync.aligned; @%p1 ret;\nfence.proxy.async ;").body
    assert [(i.opcode, i.mods, i.operands) for i in body] == [
        ("ret", (), ()), ("exit", (), ()), ("tcgen05", ("wait::ld", "sync", "aligned"), ()),
        ("ret", (), ()), ("fence", ("proxy", "async"), ()),
    ]  # fmt: skip
    assert [i.line for i in body] == [9, 9, 9, 9, 10]


def test_branches_and_labels() -> None:
    body = kernel(
        "$L__BB0_1: @%p1 bra $L__BB0_2; bra.uni $L__BB0_1;\n"
        "$L__BB0_2 : _end: nop; @!%p1 bra %tail;\n%tail:"
    ).body
    assert [i.target for i in body] == [2, 0, None, 4]
    assert len(body) == 4
    assert body[1].mods == ("uni",)


def test_space_before_operands_is_optional_only_before_brackets() -> None:
    assert instruction("prefetch.tensormap[%d1];").opcode == "prefetch"
    assert refused(text("add.s32%r1, %r2, 3;")).what == "instruction is not understood"


def test_space_between_dotted_words_is_free() -> None:
    """As NVIDIA's headers have it: `.reg.b16 hl;` in cuda_fp16.hpp, `prmt .b32` in CUTLASS."""
    found = kernel(
        ".shared.align 16.b8 tile[64]; "
        "{.reg.b32 a, b; .reg .v2.b32 v; mov .b32 a, b; @%p1 add .s32 a, b, 1;}"
    )
    assert [(i.opcode, i.mods) for i in found.body] == [("mov", ("b32",)), ("add", ("s32",))]
    assert [(v.name, v.align) for v in found.shared] == [("tile", 16)]


def test_pragmas_are_ignored() -> None:
    k = kernel('.pragma "nounroll";\n.pragma "used_bytes_mask 0xfff", "noreturn";\nret;')
    assert [i.opcode for i in k.body] == ["ret"]


def test_debug_sections_are_skipped() -> None:
    debug = '.file 1 "/a/b.py"\n.section .debug_str { info: .b8 1, 2 { } .b8 "}" }\n'
    module = parse(HEAD + debug + ".entry k() { ret; }\n" + debug)
    assert list(module.kernels) == ["k"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("add.s32 %r1, %r2, %r3", "statement does not end with ';'"),
        ("add.s32 %r1, %r2, 3\nnop;", "operand '3\\nnop' is not understood"),
        ("@ bra L;", "instruction is not understood"),
        ("@%p9 bra L;", "guard %p9 is not a declared predicate"),
        ("@%r1 bra L;", "guard %r1 is not a declared predicate"),
        ("@%p1;", "instruction is not understood"),
        ("ADD.s32 %r1, %r2, %r3;", "instruction is not understood"),
        ("add..s32 %r1, %r2, %r3;", "instruction is not understood"),
        (".tex .u64 t;", ".tex has no meaning in a kernel here"),
        (".branchtargets a, b;", "label 'a' is not declared"),
        (".param garbage;", "parameter declaration is not understood"),
        ("nop; } junk", "statement does not end with ';'"),
    ],
)
def test_refused_statements(body: str, reason: str) -> None:
    error = refused(text(body))
    assert (error.line, error.what) == (9, reason)


def test_missing_closing_brace_points_at_the_opening_one() -> None:
    error = refused(text("\n  { ret;"))
    assert (error.line, error.what) == (7, "brace is not closed")
    inner = refused(text("\n  { ret;").removesuffix("\n}\n"))
    assert (inner.line, inner.column) == (10, 2)


def test_extra_closing_brace() -> None:
    assert refused(text("}")).what == "statement does not end with ';'"


def test_calls_and_indirect_branches_are_read() -> None:
    body = parse(text(CALL, module=PRINTF)).kernels["k"].body
    assert [i.opcode for i in body] == ["st", "call"]
    assert body[1].text.startswith("call.uni (retval0), vprintf")
    indirect = "T: .branchtargets A, B;\n@%p1 brx.idx %r1, T;\nA: B: ret;"
    assert [i.opcode for i in parse(text(indirect)).kernels["k"].body] == ["brx", "ret"]


def test_calls_and_branch_tables_have_a_syntax() -> None:
    assert "label 'C'" in refused(text("A: T: .branchtargets A, C;")).what
    assert refused(text("call;")).what == "call names no target"
    assert refused(text("brx.idx;")).what == "brx names no target"


def test_device_functions_are_read_when_they_are_called() -> None:
    for function in (".func f() { ret; }", ".weak .func (.param .b32 r) f(.param .b32 a) { ret; }"):
        module = parse(text("mov.b64 %d1, f;", module=function))
        assert [i.opcode for i in module.kernels["k"].body] == ["mov"]
    assert refused(HEAD + ".func f() { ret;").what == "brace is not closed"
    assert refused(HEAD + ".func f()").what == "function f has no body or is defined twice"


def test_kernels_need_a_body_and_a_name_of_their_own() -> None:
    assert "no body" in refused(HEAD + ".entry k();").what
    assert "declared twice" in refused(HEAD + ".entry k() {} .entry k() {}").what


def test_reading_takes_steps_in_proportion() -> None:
    """Of instructions with vectors and scopes: calls of functions, which no busy machine changes.

    How long they take is shown by ``benchmarks.simulator``.
    """
    block = (
        "{ .reg .pred d; TRY: mbarrier.try_wait.parity.shared::cta.b64 d, [%r1+8], %r2, 100;\n"
        "@d bra END; bra TRY; END: }\nmov.b64 %d1, {%r1, %r2};\nfma.rn.f32x2 %d1, %d2, %d3, %d4;\n"
        "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r1], {%r1, %r2, %r3, %r4};\n"
    )

    def calls(count: int) -> int:
        source, profile = text(block * count), cProfile.Profile()
        module = profile.runcall(parse, source)
        assert len(module.kernels["k"].body) == 6 * count
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # not in typeshed

    calls(1)  # fills what is kept from one text to the next
    few = calls(100)
    assert calls(800) < 8.1 * few
