"""Names of errors."""

from __future__ import annotations

from sm100sim.driver.base.codes import Status, description, driver_name, runtime_name


def test_names_of_the_driver_and_the_runtime() -> None:
    assert driver_name(0) == "CUDA_SUCCESS"
    assert runtime_name(0) == "cudaSuccess"
    assert driver_name(2) == "CUDA_ERROR_OUT_OF_MEMORY"
    assert runtime_name(2) == "cudaErrorMemoryAllocation"
    assert (driver_name(700), runtime_name(700)) == (
        "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress",
    )  # fmt: skip
    assert driver_name(98) is None  # the runtime's only
    assert runtime_name(98) == "cudaErrorInvalidDeviceFunction"
    assert description(98) == "invalid device function"
    assert description(12345) is None


def test_every_answer_has_a_name() -> None:
    assert all(runtime_name(code) for code in Status)
