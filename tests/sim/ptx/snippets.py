"""Small PTX texts for the front end's tests."""

from __future__ import annotations

import pytest

from sm100sim.ptx import Instr, Kernel, PtxError, parse

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<8>; .reg .b128 %q<4>;"
)


def text(body: str, *, params: str = "", directives: str = "", module: str = "") -> str:
    """A module with one kernel `k`; the body starts in its own line."""
    return (
        f"{HEAD}{module}\n.visible .entry k({params})\n{directives}\n{{\n{REGISTERS}\n{body}\n}}\n"
    )


def kernel(body: str, *, params: str = "", directives: str = "", module: str = "") -> Kernel:
    """The parsed kernel of `text`."""
    return parse(text(body, params=params, directives=directives, module=module)).kernels["k"]


def instruction(statement: str) -> Instr:
    """The only instruction of a kernel with the parameters `a` and `map` and the variable `buf`."""
    (found,) = kernel(
        statement,
        params=".param .b32 a, .param .align 64 .b8 map[128]",
        module=".extern .shared .align 1024 .b8 buf[];",
    ).body
    return found


def refused(source: str) -> PtxError:
    """The error that reading `source` raises."""
    with pytest.raises(PtxError) as caught:
        parse(source)
    return caught.value
