"""What reaches the CUDA driver, seen by a stand-in for it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run.device import (
    KEPT_LAUNCHES,
    CudaError,
    CudaLauncher,
    family_ptx,
    refusal_of,
)
from fa4_cute.host.run.launch import AttentionCall, Operand, PackedLaunch, pack_launch
from fa4_cute.plan.facts.dtypes import DType
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
CALL = AttentionCall(
    *(Operand(1 << 20 | i << 16, OperandLayout.contiguous(SHAPE)) for i in range(4)),
    softmax_scale=0.1,
    lse=1 << 30,
)
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


def test_packed_launches_are_kept_per_kernel_and_operands() -> None:
    driver = FakeDriver()
    launcher = CudaLauncher(driver)
    choices = [
        choose(Problem("bf16", 2, 300, 300, 4, 4, 128, 128, causal, None, True))
        for causal in (False, True)
    ]
    specs = [choice.spec for choice in choices if isinstance(choice, Choice)]
    first = launcher.pack(specs[0], CALL, 0)
    assert launcher.pack(specs[0], dataclasses.replace(CALL), 0) is first
    assert len(driver.maps) == 4
    launcher.pack(specs[1], CALL, 0)
    moved = dataclasses.replace(CALL, o=Operand(1 << 21, CALL.o.layout))
    other = launcher.pack(specs[0], moved, 0)
    assert other.params[4:] == first.params[4:]
    assert [m[2] for m in driver.maps[8:]] == [
        op.address for op in (CALL.q, CALL.k, CALL.v, moved.o)
    ]
    scaled = launcher.pack(specs[0], dataclasses.replace(CALL, softmax_scale=0.2), 0)
    assert scaled.params[-1] != first.params[-1]


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
    operands = (Operand(1 << 20 | i << 16, OperandLayout.contiguous(shape)) for i in range(4))
    call = AttentionCall(*operands, softmax_scale=0.1, extras=(("o", 1 << 20),))
    driver = FakeDriver(num_sms=(num_sms, 7))
    launcher = CudaLauncher(driver)
    assert launcher.pack(choice.spec, call, 0).plan.grid == (grid_x, 1, 1)


def test_each_device_is_asked_once_for_its_multiprocessors() -> None:
    driver = FakeDriver(num_sms=(5, 7))
    launcher = CudaLauncher(driver)
    assert [launcher.num_sms(device) for device in (0, 1, 1, 0)] == [5, 7, 7, 5]
    kind = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    assert driver.questions == [(kind, 0), (kind, 1)]
    # The same call on another device has another grid.
    assert launcher.pack(SPEC, CALL, 0) is not launcher.pack(SPEC, CALL, 1)


def test_a_device_that_does_not_answer_is_an_error() -> None:
    launcher = CudaLauncher(FakeDriver(failing="cuDeviceGetAttribute"))
    with pytest.raises(CudaError, match="cuDeviceGetAttribute failed"):
        launcher.num_sms(0)


def test_kept_launches_are_bounded() -> None:
    launcher = CudaLauncher(FakeDriver())
    choice = choose(Problem("bf16", 2, 300, 300, 4, 4, 128, 128, False, None, True))
    assert isinstance(choice, Choice)
    for i in range(KEPT_LAUNCHES + 5):
        launcher.pack(choice.spec, dataclasses.replace(CALL, softmax_scale=float(i + 1)), 0)
    assert len(launcher._packed) == KEPT_LAUNCHES


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
        ((9, 0), "13.0", "NVIDIA H200.*9.0"),
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
