"""mov: every width, packing and unpacking, predicates, addresses, clocks."""

from __future__ import annotations

import numpy as np

from testing.harness import lanewise
from tests.sim.isa.absent import refused
from tests.sim.isa.memory.programs import fault_of

WORDS = np.random.default_rng(0).integers(0, 2**32, (4, 64), dtype=np.uint64).astype(np.uint32)


def test_halves_of_a_word() -> None:
    body = (
        "mov.b32 {%h1, %h2}, in0; mov.b32 {_, %h3}, in1; mov.b32 {%h4, _}, in1; "
        "mov.b32 out0, {%h2, %h3}; mov.b32 out1, {%h4, %h1};"
    )
    a, b = WORDS[0], WORDS[1]
    first, second = lanewise(body, a, b, out=np.uint32, outputs=2)
    assert np.array_equal(first, a >> 16 | b & 0xFFFF0000)
    assert np.array_equal(second, b & 0xFFFF | a << 16)


def test_four_parts_of_a_double_word() -> None:
    body = (
        "mov.b64 %rd1, {in0, in1}; mov.b64 {%h1, %h2, %h3, %h4}, %rd1; "
        "mov.b64 out0, {%h4, %h3, %h2, %h1};"
    )
    a, b = WORDS[0], WORDS[1]
    (got,) = lanewise(body, a, b, out=np.uint64)
    parts = [a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16]
    want = sum(p.astype(np.uint64) << np.uint64(48 - 16 * k) for k, p in enumerate(parts))
    assert np.array_equal(got, want)


def test_bytes_of_a_word() -> None:
    body = "mov.b32 {%by0, %by1, %by2, %by3}, in0; mov.b32 out0, {%by3, %by2, %by1, %by0};"
    (got,) = lanewise(body, WORDS[0], out=np.uint32, regs=".reg .b8 %by<4>;")
    assert np.array_equal(got, WORDS[0].byteswap())


def test_a_quad_word() -> None:
    regs = ".reg .b128 %qw<3>;"
    body = (
        "mov.b64 %rd1, {in0, in1}; mov.b64 %rd2, {in2, in3}; "
        "mov.b128 %qw0, {%rd1, %rd2}; mov.b128 %qw1, %qw0; "
        "mov.b128 {%r20, %r21, %r22, %r23}, %qw1; mov.b128 %qw2, {%r23, %r22, %r21, %r20}; "
        "mov.b128 {%rd3, %rd4}, %qw2; mov.b64 {out0, out1}, %rd3; mov.b64 {out2, out3}, %rd4;"
    )
    got = lanewise(body, *WORDS, out=np.uint32, outputs=4, regs=regs)
    for out, source in zip(got, WORDS[::-1], strict=True):
        assert np.array_equal(out, source)


def test_predicates_and_literals() -> None:
    body = (
        "mov.pred %q1, -1; mov.pred %q2, %q1; mov.pred %q3, 0; selp.b32 %r20, 1, 0, %q2; "
        "selp.b32 %r21, 2, 0, %q3; "
        "or.b32 out0, %r20, %r21; mov.f32 %f1, 0f40490FDB; mov.b32 out1, %f1;"
    )
    flags, pi = lanewise(body, WORDS[0][:32], out=np.uint32, outputs=2)
    assert set(flags.tolist()) == {1}
    assert np.array_equal(pi.view(np.float32), np.full(32, np.pi, np.float32))


def test_addresses_of_shared_variables_are_window_addresses() -> None:
    shared = ".shared .align 16 .b8 first[48]; .shared .align 4 .b32 second;"
    body = (
        "mov.u32 %r20, first; mov.u64 out0, second; cvt.u64.u32 %rd20, %r20; "
        "sub.u64 out1, out0, %rd20;"
    )
    address, distance = lanewise(
        body, np.zeros(32, np.uint64), out=np.uint64, outputs=2, shared=shared
    )
    assert set(distance.tolist()) == {48}
    assert (address < 2**32).all()


def test_special_registers() -> None:
    body = "mov.u32 out0, %laneid; mov.u64 %rd1, %ntid.x; cvt.u32.u64 out1, %rd1;"
    lane, size = lanewise(body, np.zeros(32, np.uint32), out=np.uint32, outputs=2)
    assert lane.tolist() == list(range(32))
    assert set(size.tolist()) == {32}


def test_special_registers_of_shared_memory_as_an_h100_has_them() -> None:
    names = ["total", "dynamic", "aggr"]
    body = "".join(f"mov.u32 out{k}, %{name}_smem_size;" for k, name in enumerate(names))
    body += "".join(
        f"mov.u32 out{3 + k}, %reserved_smem_offset_{name};"
        for k, name in enumerate(("1", "end", "cap"))
    )
    body += "mov.u64 %rd1, %current_graph_exec; cvt.u32.u64 out6, %rd1;"
    for words, dynamic, want in ((100, 4096, [4608, 4096, 5520]), (1, 0, [128, 0, 1040])):
        shared = f".shared .align 4 .b8 area[{4 * words}];"
        got = lanewise(
            body, np.zeros(32, np.uint32), out=np.uint32, outputs=7, shared=shared, smem=dynamic
        )
        assert [int(x[0]) for x in got] == [*want, 0, 288, 1024, 0]


def test_a_cluster_that_was_asked_for() -> None:
    body = "mov.pred %q1, %is_explicit_cluster; selp.b32 out0, 1, 0, %q1;"
    for cluster in (1, 2):
        (got,) = lanewise(body, np.zeros(64, np.uint32), out=np.uint32, cluster=(cluster, 1, 1))
        assert set(got.tolist()) == {cluster - 1}


def test_what_the_system_lends_of_shared_memory() -> None:
    """The header of cooperative groups keeps its barriers in 288 bytes of the system's."""
    reach = "st.shared.b32 [%r1+{at}], 7; ld.shared.b32 out0, [%r1+{at}];"
    asked = "mov.u32 %r1, %reserved_smem_offset_1;" + reach
    (got,) = lanewise(asked.format(at=284), np.zeros(32, np.uint32), out=np.uint32)
    assert set(got.tolist()) == {7}
    for body in (asked.format(at=288), "mov.u32 %r1, 0;" + reach.format(at=0)):
        assert "belong to the system" in fault_of(body.replace("out0", "%r10"))


test_illegal_forms = refused(
    "mov.u32 %r1, %clock64;",
    "mov.u64 %rd1, %clock;",
    "mov.u32 %r1;",
    "mov.b64 {%r1, %r2, %r3}, %rd1;",
    "mov.b32 %r1, {%h1, %h2, %h3, %h4};",
    "mov.b32 %r1, {%r2, %r3};",
    "mov.u64 %rd1, %r1;",
    "mov.b24 %r1, %r2;",
    "mov.b64 {1, %r2}, %rd1;",
    "mov.f16 %h1, %h2;",
    "mov.rn.f32 %f1, %f2;",
    "mov.u32 %r1, %pm0;",
    "mov.pred %q1, %laneid;",
)
