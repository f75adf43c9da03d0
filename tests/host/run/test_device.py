"""What reaches the CUDA driver, seen by a stand-in for it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run.blocks import Blocks
from fa4_cute.host.run.device import CudaError, CudaLauncher, family_ptx, refusal_of
from fa4_cute.host.run.launch import AttentionCall, Launched, Operand, PackedLaunch, pack_launch
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SMEM_PER_SM
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.tensor_maps import OperandLayout
from fa4_cute.plan.spec.variant import Scheduler
from tests.host.fake_driver import KERNEL_HANDLE, FakeDriver

SPEC = KernelSpec.for_attention(DType.BF16, 128, return_lse=True)
ARTIFACT = CompiledArtifact(
    ptx=".version 8.8\n.target sm_100a\n.address_size 64\n",
    cubin=b"\x7fELF cubin",
    kernel_name="kernel_0",
    params=SPEC.params,
    smem_bytes=SPEC.config.smem_used,
    threads=512,
)
SHAPE = (2, 300, 4, 128)


def call_of(shape: tuple[int, int, int, int], **more: Any) -> AttentionCall:
    """Operands of one shape, at addresses of their own."""
    q, k, v, o = (Operand(1 << 20 | i << 16, OperandLayout.contiguous(shape)) for i in range(4))
    return AttentionCall(q, k, v, o, softmax_scale=0.1, **more)


CALL = call_of(SHAPE, lse=1 << 30)
SIZES = tuple(param.size for param in KERNEL_PARAMS.params)


def launched(driver: FakeDriver, cluster: tuple[int, int, int] = (1, 1, 1)) -> PackedLaunch:
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    plan = dataclasses.replace(packed.plan, cluster=cluster)
    packed = dataclasses.replace(packed, plan=plan)
    launcher.launch(ARTIFACT, packed, device=3, stream=0x5678)
    return packed


def test_launch_passes_every_byte() -> None:
    driver = FakeDriver(sizes=SIZES)
    packed = launched(driver)
    (launch,) = driver.launches
    assert launch == {
        "grid": (2, 4, 2),
        "block": (512, 1, 1),
        "smem": SPEC.config.smem_used,
        "stream": 0x5678,
        "clusters": [],
        "attributes": 0,
        "function": KERNEL_HANDLE,
        "params": list(packed.params),
    }
    # The four maps are those that the driver made, in parameter order.
    assert [value[:1] for value in launch["params"][:4]] == [b"\1", b"\2", b"\3", b"\4"]


def test_cluster_becomes_an_attribute() -> None:
    driver = FakeDriver(sizes=SIZES)
    launched(driver, cluster=(2, 1, 1))
    assert driver.launches[0]["clusters"] == [(2, 1, 1)]
    assert driver.launches[0]["attributes"] == 1


def test_shared_memory_is_allowed_once_per_device() -> None:
    driver = FakeDriver(sizes=SIZES)
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    for device in (0, 1, 0, 1):
        launcher.launch(ARTIFACT, packed, device=device, stream=0)
    kind = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.attributes == [(kind, SPEC.config.smem_used, device) for device in (0, 1)]
    assert driver.images == [ARTIFACT.cubin]
    assert len(driver.launches) == 4


def test_what_fits_an_sm_twice_gets_its_memory_as_shared_memory() -> None:
    driver = FakeDriver(sizes=SIZES)
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    small = dataclasses.replace(ARTIFACT, smem_bytes=SMEM_PER_SM // 2)
    launcher.launch(small, packed, device=0, stream=0)
    kinds = driver.CUfunction_attribute
    assert driver.attributes == [
        (kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, SMEM_PER_SM // 2, 0),
        (kinds.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100, 0),
    ]


def test_tensor_map_arguments() -> None:
    driver = FakeDriver()
    pack_launch(SPEC, CALL, CudaLauncher(driver).encode)
    kind, rank, address, dims, strides, box, steps, _, swizzle, promotion, fill = driver.maps[1]
    assert kind == driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    assert (rank, address) == (4, CALL.k.address)
    assert [int(n) for n in dims] == [128, 300, 4, 2]
    assert [int(n) for n in strides] == [1024, 256, 300 * 1024]
    assert [int(n) for n in box] == [64, SPEC.config.BN, 1, 1]
    assert [int(n) for n in steps] == [1, 1, 1, 1]
    assert swizzle == driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B
    assert promotion == driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B
    assert fill == driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE


@pytest.mark.parametrize(
    ("head_dim", "num_sms", "grid_x"),
    [(128, 5, 5), (256, 5, 4), (256, 1, 2), (128, 500, 16), (256, 500, 32)],
)
def test_persistent_grids_fill_the_device(head_dim: int, num_sms: int, grid_x: int) -> None:
    """In whole pairs of CTAs where the kernel runs in pairs, and never more than query tiles."""
    features = Features(scheduler=Scheduler.PERSISTENT)
    shape = (2, 300, 4, head_dim)
    problem = Problem("bf16", *shape[:2], 300, 4, 4, *shape[3:] * 2, False, None, False)
    choice = choose(dataclasses.replace(problem, features=features, num_qo=2))
    assert isinstance(choice, Choice)
    call = call_of(shape, extras=(("o", 1 << 20),))
    driver = FakeDriver(num_sms=(num_sms, 7))
    launcher = CudaLauncher(driver)
    packed = pack_launch(choice.spec, call, launcher.encode, launcher.num_sms(0))
    assert packed.plan.grid == (grid_x, 1, 1)


def test_each_device_is_asked_once_for_its_multiprocessors() -> None:
    driver = FakeDriver(num_sms=(5, 7))
    launcher = CudaLauncher(driver)
    assert [launcher.num_sms(device) for device in (0, 1, 1, 0)] == [5, 7, 7, 5]
    kind = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    assert driver.questions == [(kind, 0), (kind, 1)]


def test_a_device_that_does_not_answer_is_an_error() -> None:
    launcher = CudaLauncher(FakeDriver(failing="cuDeviceGetAttribute"))
    with pytest.raises(CudaError, match="cuDeviceGetAttribute failed"):
        launcher.num_sms(0)


def test_other_members_of_the_family_get_ptx() -> None:
    driver = FakeDriver(capability=(10, 3), sizes=SIZES)
    launched(driver)
    assert driver.images == [b".version 8.8\n.target sm_100f\n.address_size 64\n\0"]


def test_ptx_of_another_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="sm_100a"):
        family_ptx(".target sm_90a")


@pytest.mark.parametrize(
    "call",
    ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelSetAttribute", "cuLaunchKernelEx",
     "cuTensorMapEncodeTiled"],
)  # fmt: skip
def test_driver_errors_name_the_call(call: str) -> None:
    driver = FakeDriver(sizes=SIZES, failing=call)
    with pytest.raises(
        CudaError, match=f"{call} failed: CUDA_ERROR_INVALID_VALUE .invalid argument"
    ):
        launched(driver)


def test_a_failed_load_is_tried_again() -> None:
    driver = FakeDriver(sizes=SIZES, failing="cuKernelSetAttribute")
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    with pytest.raises(CudaError):
        launcher.launch(ARTIFACT, packed, device=0, stream=0)
    driver.failing = ""
    launcher.launch(ARTIFACT, packed, device=0, stream=0)
    assert len(driver.attributes) == 2
    assert len(driver.launches) == 1


def test_devices_of_tensors() -> None:
    assert refusal_of(torch.zeros(1)) is None
    found = refusal_of(torch.zeros(1, device="meta"))
    assert found is not None
    assert "device meta" in found.message


@pytest.mark.parametrize(
    ("capability", "version", "words"),
    [
        ((8, 9), "13.0", "NVIDIA H200.*8.9"),
        ((9, 0), "13.0", ""),
        ((10, 0), None, "no NVIDIA device"),
        ((10, 0), "13.0", ""),
    ],
)
def test_devices_that_torch_calls_cuda(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], version: str | None, words: str
) -> None:
    class Tensor:
        device = torch.device("cuda", 0)

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "NVIDIA H200")
    found = refusal_of(Tensor())
    if words:
        import re

        assert found is not None
        assert re.search(words, found.message)
    else:
        assert found is None


def test_a_repeated_launch_goes_to_the_current_stream_with_what_was_patched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The configuration is made once per block; on another device, that one is made current."""
    driver = FakeDriver(sizes=SIZES)
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    streams, current, entered = [0x10, 0x10, 0x20], [3, 3, 0], []

    @contextlib.contextmanager
    def on_device(index: int) -> Iterator[None]:
        entered.append(index)
        yield

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", on_device)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=streams[0])
    )
    made = mock.patch.object(CudaLauncher, "_configure", autospec=True, side_effect=real_configure)
    with made as configured:
        repeat = launcher.repeat(3)
        configure, launch = repeat(Launched(ARTIFACT, SPEC.params, packed), None)
        blocks = Blocks(SPEC.params, packed.params, configure)
        for number in range(3):
            block = blocks.take()
            block.words[blocks.word("lse")] = number
            launch(block, [])
            blocks.give_back(block)
            streams.pop(0)
            current.pop(0)
    assert configured.call_count == 1
    assert [seen["stream"] for seen in driver.launches] == [0x10, 0x10, 0x20]
    assert [seen["params"][4] for seen in driver.launches] == [
        bytes([i, *[0] * 7]) for i in range(3)
    ]
    assert all(seen["params"][5:] == list(packed.params[5:]) for seen in driver.launches)
    assert {seen["grid"] for seen in driver.launches} == {packed.plan.grid}
    assert entered == [3]


real_configure = CudaLauncher._configure


def test_a_repeated_launch_that_fails_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(sizes=SIZES, failing="cuLaunchKernelEx")
    launcher = CudaLauncher(driver)
    packed = pack_launch(SPEC, CALL, launcher.encode)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=1))
    configure, launch = launcher.repeat(0)(Launched(ARTIFACT, SPEC.params, packed), None)
    block = Blocks(SPEC.params, packed.params, configure).take()
    with pytest.raises(CudaError, match="cuLaunchKernelEx failed"):
        launch(block, [])


def test_memory_of_zeros_is_no_part_of_a_graph() -> None:
    driver = FakeDriver()
    assert CudaLauncher(driver).zeros(4096) == 1 << 40
    modes = driver.CUstreamCaptureMode
    assert driver.memory == [
        ("mode", modes.CU_STREAM_CAPTURE_MODE_RELAXED),
        ("alloc", 4096),
        ("stream", driver.CUstream_flags.CU_STREAM_NON_BLOCKING),
        ("set", 1 << 40, 0, 4096, 0x99),
        ("wait", 0x99),
        ("destroy", 0x99),
        ("mode", modes.CU_STREAM_CAPTURE_MODE_GLOBAL),
    ]


def test_a_device_without_memory_for_zeros() -> None:
    driver = FakeDriver(failing="cuMemAlloc")
    with pytest.raises(CudaError, match="cuMemAlloc failed"):
        CudaLauncher(driver).zeros(4096)
    assert driver.memory[-1] == ("mode", driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
