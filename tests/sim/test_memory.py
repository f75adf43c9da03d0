"""Allocations have names, and findings say them with the distance."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import torch

import sm100sim
from sm100sim.launch_request import LaunchRequest
from sm100sim.memory import Allocation, allocation_of, readable, with_names, with_shared_names
from sm100sim.run import run
from testing.harness import run_ptx

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
STORE = """
.global .align 4 .u32 counter;
.visible .entry store(.param .u64 out, .param .u64 offset) {
.reg .b64 %rd<4>; .reg .b32 %r<4>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [offset]; add.s64 %rd3, %rd1, %rd2;
TARGET
st.global.u32 [%rd3], 1; ret; }
"""


def fault(offset: int, target: str = "") -> str:
    out = np.zeros(1024, np.uint32)
    with pytest.raises(sm100sim.SimulationFault) as caught:
        sm100sim.launch(HEAD + STORE.replace("TARGET", target), grid=1, block=1, args=[out, offset])
    return caught.value.report.findings[0].message


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (4096, "; it starts at the end of `out` (4096 bytes at 0x"),
        (4116, "; it starts 20 bytes past the end of `out` (4096 bytes at 0x"),
        (-8, "; it starts 8 bytes before `out` (4096 bytes at 0x"),
    ],
)
def test_a_wild_address_names_the_parameter_of_the_nearest_array(offset: int, words: str) -> None:
    assert words in fault(offset)


def test_a_wild_address_names_a_variable_of_the_module() -> None:
    target = "mov.u64 %rd3, counter; add.s64 %rd3, %rd3, 4;"
    assert "; it starts at the end of `counter` (4 bytes at 0x" in fault(0, target)


def test_other_addresses_are_placed_in_their_buffer() -> None:
    out = np.zeros(64, np.uint32)
    out.setflags(write=False)
    with pytest.raises(
        sm100sim.SimulationFault, match=r"at 0x[0-9a-f]+ \(`out` \+ 12\): the alloc"
    ):
        sm100sim.launch(HEAD + STORE.replace("TARGET", ""), grid=1, block=1, args=[out, 12])
    body = "mov.u32 %r1, %ctaid.x; st.global.u32 [%p0+32], %r1;"
    report = run_ptx(body, np.zeros(64, np.uint32), grid=(2, 1, 1), checks="races")
    assert [f.code for f in report.findings] == ["race-global"]
    assert "(`uint32[64]` + " in report.findings[0].message


def test_registered_buffers_have_the_name_that_they_were_given() -> None:
    weights = sm100sim.register(torch.zeros(4, 8), name="weights")
    try:
        found = with_names(f"read of 4 bytes at {weights.data_ptr() + 16:#x}", [
            Allocation(0, 0, name="empty"), *sm100sim.memory._registered.values(),
        ])  # fmt: skip
    finally:
        del weights
    assert found.endswith(" (`weights` + 16)")


def test_names_are_shapes_where_none_is_given() -> None:
    assert allocation_of(np.zeros((2, 3), np.float16)).name == "float16[2, 3]"
    assert allocation_of(torch.zeros(5, dtype=torch.bfloat16)).name == "bfloat16[5]"
    assert allocation_of(np.zeros(3), name="x").name == "x"


def test_what_has_no_name_keeps_its_address() -> None:
    message = "it starts 4 bytes past the end of the 64 bytes at 0x7f0000001000"
    assert with_names(message, [Allocation(0x7F0000001000, 64)]) == message
    assert with_names(message, [Allocation(0x7F0000001000, 65, name="a")]) != message
    assert with_names("shared address 0x404", [Allocation(0x400, 64, name="a")])[-5:] == "0x404"


@pytest.mark.parametrize(
    ("size", "address", "words"),
    [
        (256, 0x400 + 256, "it starts at the end of the CTA's shared memory (256 bytes)"),
        (256, 0x400 + 272, "it starts 16 bytes past the end of the CTA's shared memory (256 bytes"),
        (260, 0x400 + 256, "its last 4 bytes are past the end of the CTA's shared memory (260 by"),
    ],
)
def test_shared_addresses_name_the_distance(size: int, address: int, words: str) -> None:
    body = f"mov.u32 %r1, {address}; ld.shared.v2.b32 {{%r2, %r3}}, [%r1];"
    with pytest.raises(sm100sim.SimulationFault) as caught:
        run_ptx(body, shared=".extern .shared .align 8 .b8 dyn[];", smem=size)
    assert words in str(caught.value)


def test_shared_offsets_name_their_variable() -> None:
    shared = ".shared .align 8 .b64 bar;\n.shared .align 4 .b8 s[64];\n"
    shared += ".extern .shared .align 16 .b8 dyn[];"
    body = "mov.u32 %r1, {}; mov.u32 %r2, %tid.x; shr.u32 %r2, %r2, 5; st.shared.u32 [%r1+{}], %r2;"
    for name, offset, shown in (("s", 16, "`s` + 16"), ("dyn", 32, "`dyn` + 32")):
        report = run_ptx(
            body.format(name, offset), shared=shared, smem=64, block=64, checks="races"
        )
        assert [f.code for f in report.findings] == ["race-shared"]
        assert f" ({shown}) is not ordered" in report.findings[0].message
    arrive = "mov.u32 %r1, bar; mbarrier.arrive.shared.b64 %rd1, [%r1];"
    with pytest.raises(sm100sim.SimulationFault, match=r"CTA 0 \+ 0x400 \(`bar` \+ 0\)"):
        run_ptx(arrive, shared=shared)


def test_other_offsets_are_left_as_they_are() -> None:
    variables = [Allocation(0x400, 16, name="s")]
    for message in ("tmem CTA 0 + 0x404", "global CTA 0 + 0x404", "CTA 0 + 0x410", "CTA 0 + 0x3ff"):
        assert with_shared_names(message, variables) == message
    assert with_shared_names("CTA 1 + 0x404 of", variables) == "CTA 1 + 0x404 (`s` + 4) of"


def test_names_that_cxx_mangled_are_readable() -> None:
    names = {
        "_ZZ7reversePKfPfE1s": "s", "_ZZ4tilevE5tiles_0": "tiles", "_ZZ1fvE3s_1": "s_1",
        "_ZZ1fvE9s": "_ZZ1fvE9s", "s": "s", "__dynamic_shmem__0": "__dynamic_shmem__0",
    }  # fmt: skip
    assert {name: readable(name) for name in names} == names
    shared = ".shared .align 4 .b8 _ZZ1kvE1s[64];"
    body = "mov.u32 %r1, _ZZ1kvE1s; mov.u32 %r2, %tid.x; st.shared.u32 [%r1+16], %r2;"
    report = run_ptx(body, shared=shared, block=64, checks="races")
    assert "(`s` + 16)" in report.findings[0].message


COPY = """
.visible .entry copy(.param .u64 from) {
.reg .b64 %rd<2>; .reg .pred %p; .shared .align 128 .b8 to[256]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [from];
mbarrier.init.shared.b64 [bar], 1;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [to], [%rd1], 256, [bar];
W: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
@!%p bra W;
ret; }
"""


def test_an_array_may_lie_in_two_mappings_that_touch() -> None:
    pages = np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.uint8)
    edge = pages.ctypes.data + mmap.PAGESIZE
    # A page that children do not get is a mapping of its own.
    rest = ctypes.c_void_p(edge), ctypes.c_size_t(mmap.PAGESIZE)
    assert ctypes.CDLL(None).madvise(*rest, mmap.MADV_DONTFORK) == 0
    params = ((edge - 128).to_bytes(8, "little"),)
    request = LaunchRequest(HEAD + COPY, "copy", (1, 1, 1), (1, 1, 1), params=params)
    assert not run(request, buffers=[]).findings
