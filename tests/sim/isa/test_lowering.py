"""What no family can be asked for: missing operands, numbers without room."""

from __future__ import annotations

import pytest

from sm100sim.isa import families  # noqa: F401  (registers every family)
from sm100sim.isa.lowering import registered
from sm100sim.ptx.errors import PtxError
from sm100sim.run import prepare
from testing.harness import kernel_text

FORMS = ("", ".b32", ".f32.f32", ".global.b32", ".sync.aligned.b32", ".async.bulk.global")


def refused(statement: str) -> str:
    """The statement that an error shows; the given one when there is no error."""
    try:
        refusals = prepare(kernel_text(statement, []), "k").refused
    except PtxError as error:
        return error.text
    return refusals[0].text if refusals else statement


@pytest.mark.parametrize("opcode", sorted(registered()))
def test_missing_operands_are_refused_in_words(opcode: str) -> None:
    for form in FORMS:
        for operands in ("", "%r1", "[%rd1]", "%r1, %r2", "[%rd1], [%rd1]"):
            assert opcode in refused(f"{opcode}{form} {operands};")


@pytest.mark.parametrize("offset", [2**31, -(2**31) - 1, 2**62])
@pytest.mark.parametrize("base", ["%rd1", "dyn"])
def test_an_offset_has_32_bits(offset: int, base: str) -> None:
    body = "ld.shared.b32 %r1, [BASE+OFFSET];".replace("BASE", base).replace("OFFSET", str(offset))
    text = kernel_text(body, [], shared=".extern .shared .align 16 .b8 dyn[];")
    (why,) = prepare(text, "k").refused
    assert why.what == f"the offset {offset} has more than 32 bits"


def test_global_memory_that_the_machine_lacks() -> None:
    text = kernel_text("", [], shared=".global .b8 g[1099511627776000];")
    with pytest.raises(PtxError, match="PTX line 4: g: 1099511627776000 bytes of global memory"):
        prepare(text, "k")
