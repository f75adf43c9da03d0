"""What a launch may ask for: the limits of the hardware, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sm100sim.launch_request import LaunchRequest
from sm100sim.report import SimulationFault
from sm100sim.run import run
from testing.harness import kernel_text

EMPTY = kernel_text("", [])
POINTER = kernel_text("", [np.zeros(1)])


def launch(ptx: str = EMPTY, **changes: Any) -> str:
    shape = {"grid": (1, 1, 1), "block": (32, 1, 1), **changes}
    return run(LaunchRequest(ptx=ptx, kernel="k", **shape), buffers=[np.zeros(1)]).verdict


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (2**31, 1, 1)}, r"grid: \(2147483648, 1, 1\) is larger than \(2147483647, "),
        ({"grid": (2**32, 1, 1)}, "grid: "),
        ({"grid": (2**32 + 1, 1, 1)}, "grid: "),
        ({"grid": (2**40, 1, 1)}, "grid: "),
        ({"grid": (1, 70_000, 1)}, "65535"),
        ({"grid": (1, 1, 65_536)}, "65535"),
        ({"block": (1, 1, 128)}, r"block: \(1, 1, 128\) is larger than \(1024, 1024, 64\)"),
        ({"block": (2**32 + 1, 1, 1)}, "block: "),
        ({"block": (1024, 2, 1)}, "2048 threads; 1 to 1024"),
        ({"grid": (2**31 - 2, 1, 1), "cluster": (2**30 - 1, 1, 1)}, "CTAs; 1 to 16"),
        ({"smem_bytes": 1.5}, "smem_bytes=1.5: expected a whole number"),
        ({"smem_bytes": 2**40}, "smem_bytes: "),
        ({"ptx": POINTER}, "params: 0 given, the kernel declares 1"),
        ({"params": (b"12345678",)}, "params: 1 given, the kernel declares 0"),
        ({"ptx": POINTER, "params": (b"1",)}, r"params\[0\]: 1 bytes given, the PTX declares 8"),
    ],
)
def test_what_the_hardware_refuses_is_refused_in_words(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        launch(**changes)


def test_parameters_are_bytes() -> None:
    with pytest.raises(TypeError, match=r"params\[0\]: int is no byte string"):
        launch(POINTER, params=(5,))


def test_the_largest_extents_are_possible() -> None:
    assert launch(block=(1, 16, 64)) == "clean"


def test_buffers_of_a_generator_live_until_the_end() -> None:
    """Nobody else holds them: a launch that kept their addresses only would write anywhere."""
    died: list[int] = []

    class Watched(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            died.append(self.size)

    def buffers() -> Any:
        for size in (1, 2, 3):
            yield np.zeros(size, np.uint8).view(Watched)
        assert died == []

    request = LaunchRequest(ptx=EMPTY, kernel="k", grid=(1, 1, 1), block=(32, 1, 1))
    run(request, buffers=buffers())
    assert sorted(died) == [1, 2, 3]


def test_kernels_of_a_module_share_variables_that_are_placed() -> None:
    """The simulator places those that are not, for each kernel anew."""
    body = "ld.global.u32 %r1, [n]; add.u32 %r1, %r1, 1; st.global.u32 [n], %r1; ret; }"
    entry = ".visible .entry {} () {{ .reg .b32 %r<2>; {}\n"
    head = EMPTY[: EMPTY.index(".visible")]
    ptx = head + ".global .u32 n = 5;\n" + entry.format("a", body) + entry.format("b", body)
    n = np.zeros(1, np.uint32)
    for kernel, placed in (("a", True), ("b", True), ("b", False)):
        where = (("n", n.ctypes.data),) if placed else ()
        shape: dict[str, Any] = {"grid": (1, 1, 1), "block": (1, 1, 1), "placed": where}
        assert run(LaunchRequest(ptx=ptx, kernel=kernel, **shape), buffers=[n]).verdict == "clean"
    assert n[0] == 2


def test_registers_of_the_driver_hold_what_the_caller_says() -> None:
    """PTX ISA, "Special Registers: %envreg<32>"; without a driver they hold nothing."""
    n = np.zeros(1, np.uint32)
    body = "mov.u32 %r1, %envreg2; st.global.u32 [n], %r1; ret; }"
    ptx = EMPTY[: EMPTY.index(".visible")] + ".global .u32 n;\n"
    ptx += f".visible .entry k () {{ .reg .b32 %r<2>; {body}\n"
    where = (("n", n.ctypes.data), ("%envreg2", 77))
    shape: dict[str, Any] = {"ptx": ptx, "kernel": "k", "grid": (1, 1, 1), "block": (1, 1, 1)}
    assert run(LaunchRequest(**shape, placed=where), buffers=[n]).verdict == "clean"
    assert n[0] == 77
    with pytest.raises(SimulationFault, match="%envreg2 holds what a driver puts there"):
        run(LaunchRequest(**shape), buffers=[n])
