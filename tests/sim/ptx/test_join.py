"""One PTX text of several."""

from __future__ import annotations

import numpy as np
import pytest

import sm100sim
from sm100sim.ptx import parse
from sm100sim.ptx.join import JoinError, joined
from sm100sim.ptx.places import Places

HEAD = ".version {0}\n.target {1}\n.address_size 64\n"
KERNEL = HEAD.format("8.0", "sm_90") + """
.file 1 "kernel.cu"
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .b32 base;
.extern .shared .align 16 .b8 dynamic[];
.global .b32 own = 5;
.func (.param .b32 r) hidden(.param .b32 x)
{ .reg .b32 %a<3>; ld.param.b32 %a1, [x]; add.u32 %a2, %a1, 1; st.param.b32 [r], %a2; ret; }
.weak .func (.param .b32 r) either(.param .b32 x) { st.param.b32 [r], 0; ret; }
.visible .entry main(.param .u64 out)
{
  .reg .b64 %d<4>; .reg .b32 %r<9>;
  .param .b32 from; .param .b32 to;
  .loc 1 7 0
  ld.global.u32 %r1, [base];
  ld.global.u32 %r2, [own];
  add.u32 %r3, %r1, %r2;
  st.param.b32 [from], %r3;
  call (to), twice, (from);
  ld.param.b32 %r4, [to];
  st.param.b32 [from], %r4;
  call (to), hidden, (from);
  ld.param.b32 %r5, [to];
  st.param.b32 [from], %r5;
  call (to), either, (from);
  ld.param.b32 %r6, [to];
  ld.param.u64 %d1, [out];
  st.global.u32 [%d1], %r6;
  ret;
}
"""
LIBRARY = HEAD.format("8.6", "sm_100a") + """
.file 1 "library.cu"
.extern .shared .align 16 .b8 dynamic[];
.visible .global .b32 base = 7;
.global .b32 own = 100;
.func (.param .b32 r) hidden(.param .b32 x)
{ .reg .b32 %a<4>;
  ld.param.b32 %a1, [x]; ld.global.u32 %a2, [own]; add.u32 %a3, %a1, %a2;
  st.param.b32 [r], %a3; ret; }
.visible .func (.param .b32 r) twice(.param .b32 x)
{
  .reg .b32 %a<4>; .param .b32 from; .param .b32 to;
  .loc 1 3 0
  ld.param.b32 %a1, [x];
  add.u32 %a2, %a1, %a1;
  st.param.b32 [from], %a2;
  call (to), hidden, (from);
  ld.param.b32 %a3, [to];
  st.param.b32 [r], %a3;
  ret;
}
.visible .func (.param .b32 r) either(.param .b32 x)
{ .reg .b32 %a<3>; ld.param.b32 %a1, [x]; mul.lo.u32 %a2, %a1, 3; st.param.b32 [r], %a2; ret; }
"""  # fmt: skip
EXPECTED = ((7 + 5) * 2 + 100 + 1) * 3
"""Each text has its own `own` and `hidden`; `either` is the strong one."""


@pytest.mark.parametrize("texts", [(KERNEL, LIBRARY), (LIBRARY, KERNEL)])
def test_names_are_shared_or_their_texts_own(texts: tuple[str, str]) -> None:
    text = joined(texts)
    module = parse(text)
    assert (module.version, module.target) == ("8.6", "sm_100a")
    assert sum(v.name == "dynamic" for v in module.globals) == 1
    out = np.zeros(1, np.uint32)
    sm100sim.launch(text, grid=1, block=1, args=[out])
    assert out[0] == EXPECTED


def test_lines_keep_their_files() -> None:
    text = joined((KERNEL, LIBRARY))
    places = Places(text)
    lines = text.split("\n")
    found = [
        places.at(1 + next(k for k, line in enumerate(lines) if mark in line))
        for mark in ("[base];", "add.u32 %a2, %a1, %a1;")
    ]
    assert [(at.file, at.line) for at in found if at] == [("kernel.cu", 7), ("library.cu", 3)]


def test_one_text_stays_as_it_is() -> None:
    assert joined([KERNEL]) == KERNEL


def test_common_variables_are_as_large_as_the_largest() -> None:
    small = HEAD.format("8.0", "sm_90") + ".common .global .align 4 .b8 room[4];\n"
    large = HEAD.format("8.0", "sm_90") + ".common .global .align 4 .b8 room[64];\n"
    (room,) = parse(joined([small, large])).globals
    assert room.size_bytes == 64


def test_a_weak_kernel_gives_way() -> None:
    weak = HEAD.format("8.0", "sm_90") + ".weak .entry k()\n{ trap; ret; }\n"
    strong = HEAD.format("8.0", "sm_90") + ".visible .entry k()\n{ ret; }\n"
    for texts in ((weak, strong), (strong, weak)):
        assert [ins.opcode for ins in parse(joined(texts)).kernels["k"].body] == ["ret"]
    assert len(parse(joined([weak, weak])).kernels) == 1


def test_what_does_not_go_together() -> None:
    with pytest.raises(JoinError, match="multiple definition of twice"):
        joined([LIBRARY, LIBRARY.replace("base", "other").replace("either", "or")])
    with pytest.raises(JoinError, match="text 1 is no PTX"):
        joined([KERNEL, "int main() {}"])
