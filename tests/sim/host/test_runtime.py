from __future__ import annotations

import ctypes
import struct

import pytest

from sm100sim.host.device_model import DeviceModel
from sm100sim.host.images import PtxCatalogue, UnknownImageError
from sm100sim.host.runtime import (
    LAUNCH_CONFIG,
    MAX_DYNAMIC_SMEM,
    LaunchError,
    Runtime,
)
from sm100sim.launch_request import LaunchRequest

PTX = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 p, .param .u32 n) { ret; }
"""


class OneImage(PtxCatalogue):
    """Knows the image at address 1."""

    def lookup(self, address: int) -> str:
        if address != 1:
            raise UnknownImageError("unknown")
        return PTX


class Launch:
    """Runtime structures in host memory, as the jitted host code builds them."""

    def __init__(self, smem: int = 0, attributes: tuple[tuple[int, bytes], ...] = ()) -> None:
        records = b"".join(struct.pack("<I4x64s", number, value) for number, value in attributes)
        self.attributes = ctypes.create_string_buffer(records or b"\0")
        self.config = ctypes.create_string_buffer(
            LAUNCH_CONFIG.pack(
                4, 2, 1, 128, 1, 1, smem, 0, ctypes.addressof(self.attributes), len(attributes)
            )
        )
        values = (bytes(range(128)), b"P" * 8, b"nnnn")
        self.values = [ctypes.create_string_buffer(value) for value in values]
        self.args = (ctypes.c_void_p * 3)(*map(ctypes.addressof, self.values))

    @property
    def config_address(self) -> int:
        return ctypes.addressof(self.config)

    @property
    def args_address(self) -> int:
        return ctypes.addressof(self.args)


@pytest.fixture
def requests() -> list[LaunchRequest]:
    return []


@pytest.fixture
def runtime(requests: list[LaunchRequest]) -> Runtime:
    def launcher(request: LaunchRequest) -> str:
        requests.append(request)
        return f"report {len(requests)}"

    return Runtime(OneImage(), DeviceModel(), launcher)


def kernel(runtime: Runtime) -> int:
    return runtime.get_kernel(runtime.load_library(1), "k")


def test_the_configuration_has_the_size_of_the_cuda_runtimes() -> None:
    assert LAUNCH_CONFIG.size == 56


def test_a_launch_is_decoded_into_a_request_and_its_report_kept(
    runtime: Runtime, requests: list[LaunchRequest]
) -> None:
    cluster = struct.pack("<3I", 2, 2, 1)
    launch = Launch(smem=1024, attributes=((6, b"\1"), (4, cluster)))
    assert runtime.last_report is None
    runtime.launch(launch.config_address, kernel(runtime), launch.args_address)
    (made,) = requests
    assert (made.kernel, made.ptx) == ("k", PTX)
    assert (made.grid, made.block, made.cluster) == ((4, 2, 1), (128, 1, 1), (2, 2, 1))
    assert made.smem_bytes == 1024
    assert made.params == (bytes(range(128)), b"P" * 8, b"nnnn")
    assert set(made.attributes) == {4, 6}
    assert runtime.last_report == "report 1"


def test_a_launch_without_attributes_has_clusters_of_one(
    runtime: Runtime, requests: list[LaunchRequest]
) -> None:
    launch = Launch()
    runtime.launch(launch.config_address, kernel(runtime), launch.args_address)
    assert requests[0].cluster == (1, 1, 1)


def test_dynamic_shared_memory_needs_the_programs_own_permission(runtime: Runtime) -> None:
    handle, launch = kernel(runtime), Launch(smem=100_000)
    with pytest.raises(LaunchError, match="100000 bytes of dynamic shared memory"):
        runtime.launch(launch.config_address, handle, launch.args_address)
    runtime.kernel(handle).attributes[MAX_DYNAMIC_SMEM] = 232_448
    runtime.launch(launch.config_address, handle, launch.args_address)
    too_much = Launch(smem=232_449)
    runtime.kernel(handle).attributes[MAX_DYNAMIC_SMEM] = 300_000
    with pytest.raises(LaunchError, match="the device has 232448"):
        runtime.launch(too_much.config_address, handle, too_much.args_address)


def test_unknown_images_libraries_kernels_and_handles_are_named(runtime: Runtime) -> None:
    library = runtime.load_library(1)
    with pytest.raises(UnknownImageError):
        runtime.load_library(2)
    with pytest.raises(LaunchError, match=r"no kernel 'other' in the library; it has \['k'\]"):
        runtime.get_kernel(library, "other")
    runtime.unload_library(library)
    with pytest.raises(LaunchError, match=f"no library with handle {library:#x}"):
        runtime.get_kernel(library, "k")
    with pytest.raises(LaunchError, match="no kernel with handle 0x7"):
        runtime.kernel(7)


def test_device_memory_is_aligned_host_memory(runtime: Runtime) -> None:
    address = runtime.allocate(1000)
    assert address % 256 == 0
    ctypes.memset(address, 0x5A, 1000)
    assert ctypes.string_at(address, 1000) == b"\x5a" * 1000
    runtime.release(address)
    runtime.release(0)
    with pytest.raises(LaunchError, match="not allocated here"):
        runtime.release(address)


def test_a_kept_error_replaces_the_one_that_came_through_foreign_code(runtime: Runtime) -> None:
    def call_of_the_dsl() -> None:
        with runtime.own_errors():
            runtime.pending = ValueError("wild address")
            raise RuntimeError("CUDA launch failed")

    with pytest.raises(ValueError, match="wild address") as caught:
        call_of_the_dsl()
    assert str(caught.value.__cause__) == "CUDA launch failed"
    assert runtime.pending is None


def test_a_failure_that_the_program_ignored_is_still_raised(runtime: Runtime) -> None:
    with pytest.raises(LaunchError, match="failed with error 1"), runtime.own_errors():
        runtime.assertion_failed(1)


def test_errors_which_are_not_ours_pass_unchanged(runtime: Runtime) -> None:
    with pytest.raises(TypeError, match="the program's own"), runtime.own_errors():
        raise TypeError("the program's own")
