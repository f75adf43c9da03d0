"""The launch path on a real device of any recent kind: a kernel reports what it was given.

Loading, parameters, clusters, shared memory and streams are the same on 9.0 and 10.x; a small PTX
kernel checks them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import struct

import pytest
import torch

from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run.device import CudaLauncher
from fa4_cute.host.run.launch import PackedLaunch
from fa4_cute.plan.facts.tensor_map_bits import TensorMapFields, encode_tensor_map
from fa4_cute.plan.launch.launch import LaunchPlan
from fa4_cute.plan.spec.params import lay_out

SMEM_BYTES = 200 * 1024
COLUMNS = 64
# Thread 0 of each CTA loads the box at (0, its cluster rank) by TMA and writes: the box, then
# u32 words: the scalar, its cluster rank, the CTAs of its cluster, dynamic shared memory.
PTX = """
.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry probe(
    .param .align 64 .b8 map[128], .param .u64 out, .param .u32 scalar)
{
    .reg .pred %p; .reg .b32 %r<16>; .reg .b64 %rd<8>;
    cvta.param.u64 %rd1, map;
    mov.u32 %r1, smem;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, %cluster_nctarank;
    mov.u32 %r4, %dynamic_smem_size;
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r2, 144;
    add.s64 %rd2, %rd2, %rd3;
    ld.param.u32 %r5, [scalar];
    add.u32 %r6, %r1, 1024;
    mbarrier.init.shared.b64 [%r6], 1;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r6], 128;
    mov.u32 %r7, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r1], [%rd1, {%r7, %r2}], [%r6];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p, [%r6], 0;
    @!%p bra WAIT;
    mov.u32 %r8, 0;
COPY:
    add.u32 %r9, %r1, %r8;
    ld.shared.u32 %r10, [%r9];
    cvt.u64.u32 %rd5, %r8;
    add.s64 %rd6, %rd2, %rd5;
    st.global.u32 [%rd6], %r10;
    add.u32 %r8, %r8, 4;
    setp.lt.u32 %p, %r8, 128;
    @%p bra COPY;
    st.global.v4.u32 [%rd2 + 128], {%r5, %r2, %r3, %r4};
    ret;
}
"""


def has_device() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


pytestmark = pytest.mark.skipif(not has_device(), reason="needs a CUDA device, 9.0 or later")


def artifact() -> CompiledArtifact:
    params = lay_out(("map", "tensor_map"), ("out", "u64"), ("scalar", "u32"))
    return CompiledArtifact(PTX, b"", "probe", params, SMEM_BYTES, 1)


@pytest.mark.parametrize("own_bits", [False, True], ids=["driver's map", "our map"])
def test_a_kernel_gets_what_was_packed(own_bits: bool) -> None:
    from cuda.bindings import driver

    launcher = CudaLauncher(driver, lambda kernel, capability: kernel.ptx.encode() + b"\0")
    source = torch.randn(2, COLUMNS, device="cuda").to(torch.float16)
    out = torch.zeros(2, 144, dtype=torch.uint8, device="cuda")
    fields = TensorMapFields(
        "FLOAT16", source.data_ptr(), (COLUMNS, 2), (2 * COLUMNS,), (COLUMNS, 1), swizzle=0
    )
    encoded = encode_tensor_map(fields) if own_bits else launcher.encode(fields)
    plan = LaunchPlan((2, 1, 1), (1, 1, 1), (2, 1, 1), SMEM_BYTES, {})
    params = (encoded, struct.pack("<Q", out.data_ptr()), struct.pack("<i", -7))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    launcher.launch(artifact(), PackedLaunch(plan, params), 0, stream.cuda_stream)
    stream.synchronize()
    for rank, row in enumerate(out.cpu()):
        assert bytes(row[:128].numpy()) == bytes(source[rank].cpu().view(torch.uint8).numpy())
        assert struct.unpack("<4i", bytes(row[128:].numpy())) == (-7, rank, 2, SMEM_BYTES)


def test_a_launch_can_be_captured_in_a_graph() -> None:
    from cuda.bindings import driver

    launcher = CudaLauncher(driver, lambda kernel, capability: kernel.ptx.encode() + b"\0")
    source = torch.ones(2, COLUMNS, device="cuda", dtype=torch.float16)
    out = torch.zeros(2, 144, dtype=torch.uint8, device="cuda")
    fields = TensorMapFields(
        "FLOAT16", source.data_ptr(), (COLUMNS, 2), (2 * COLUMNS,), (COLUMNS, 1), swizzle=0
    )
    plan = LaunchPlan((2, 1, 1), (1, 1, 1), (2, 1, 1), SMEM_BYTES, {})
    params = (launcher.encode(fields), struct.pack("<Q", out.data_ptr()), struct.pack("<i", 1))
    packed = PackedLaunch(plan, params)
    launcher.launch(artifact(), packed, 0, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher.launch(artifact(), packed, 0, torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    assert not out.any(), "capturing does not run it"
    graph.replay()
    torch.cuda.synchronize()
    assert out.any()


def test_the_driver_and_this_package_encode_the_same_map() -> None:
    from cuda.bindings import driver

    source = torch.zeros(2, 300, 4, 128, dtype=torch.bfloat16, device="cuda")
    fields = TensorMapFields(
        "BFLOAT16", source.data_ptr(), (128, 300, 4, 2), (1024, 256, 300 * 1024),
        (64, 128, 1, 1), swizzle=3, l2_promotion=2,
    )  # fmt: skip
    launcher = CudaLauncher(driver)
    # Bytes from 64 on belong to the driver.
    assert launcher.encode(fields)[:64] == encode_tensor_map(fields)[:64]
    other = dataclasses.replace(fields, swizzle=2, box=(32, 128, 1, 1))
    assert launcher.encode(other)[:64] == encode_tensor_map(other)[:64]


def test_an_address_is_the_first_word_of_a_map() -> None:
    """What a repeated call writes into a map is what the driver would write."""
    from cuda.bindings import driver

    first, second = (torch.zeros(2, 300, 4, 128, dtype=torch.bfloat16, device="cuda") for _ in "ab")
    launcher = CudaLauncher(driver)
    for dims, strides, box in (
        ((128, 300, 4, 2), (1024, 256, 300 * 1024), (64, 128, 1, 1)),
        ((128, 4, 300, 1, 2), (256, 1024, 1024, 300 * 1024), (64, 4, 32, 1, 1)),
    ):
        fields = TensorMapFields(
            "BFLOAT16", first.data_ptr(), dims, strides, box, swizzle=3, l2_promotion=2
        )
        other = launcher.encode(dataclasses.replace(fields, address=second.data_ptr()))
        encoded = launcher.encode(fields)
        assert struct.pack("<Q", second.data_ptr()) + encoded[8:] == other
        replaced = driver.CUtensorMap()
        ctypes.memmove(int(replaced.getPtr()), encoded, len(encoded))
        (status,) = driver.cuTensorMapReplaceAddress(replaced, second.data_ptr())
        assert int(status) == 0
        assert ctypes.string_at(int(replaced.getPtr()), len(encoded)) == other


def test_the_driver_and_torch_count_the_same_multiprocessors() -> None:
    from cuda.bindings import driver

    expected = torch.cuda.get_device_properties(0).multi_processor_count
    assert CudaLauncher(driver).num_sms(0) == expected


def test_kernels_for_another_architecture_are_refused() -> None:
    import fa4_cute

    other = "sm_90a" if torch.cuda.get_device_capability()[0] == 10 else "sm_100a"
    q = torch.zeros(1, 4, 1, 64, dtype=torch.bfloat16, device="cuda")
    with pytest.raises(NotImplementedError, match=rf"arch='{other}': device .* compute capability"):
        fa4_cute.flash_attn(q, q, q, arch=other)
