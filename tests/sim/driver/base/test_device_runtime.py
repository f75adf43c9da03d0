"""What stands for the device runtime's library."""

from __future__ import annotations

import numpy as np
import pytest

from sm100sim import SimulationFault
from sm100sim.driver.base.device_runtime import DEVICE_RUNTIME, is_device_runtime
from sm100sim.launch_request import COOPERATIVE, LaunchRequest
from sm100sim.ptx.join import joined
from sm100sim.run import run as simulate

CTAS = 5
KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.visible .entry turns(.param .u64 counts, .param .u64 out, .param .u32 scope)
{
  .reg .b64 %d<9>; .reg .b32 %r<9>;
  .param .b32 scope_in; .param .b64 handle; .param .b32 flags; .param .b32 code;
  ld.param.u32 %r0, [scope];
  st.param.b32 [scope_in], %r0;
  call (handle), cudaCGGetIntrinsicHandle, (scope_in);
  st.param.b32 [flags], 0;
  ld.param.u64 %d1, [counts];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d2, %d2, %d3;
  atom.relaxed.gpu.global.add.u32 %r2, [%d1], 1;
  call (code), cudaCGSynchronize, (handle, flags);
  ld.relaxed.gpu.global.u32 %r3, [%d1];
  atom.relaxed.gpu.global.add.u32 %r4, [%d1+4], %r3;
  call (code), cudaCGSynchronize, (handle, flags);
  ld.relaxed.gpu.global.u32 %r5, [%d1+4];
  st.global.u32 [%d2], %r5;
  ret;
}
"""


def run(scope: int) -> np.ndarray:
    counts, out = np.zeros(2, np.uint32), np.zeros(CTAS, np.uint32)
    workspace = np.zeros(64, np.uint8)
    at = workspace.ctypes.data
    words = [np.uint64(a.ctypes.data).tobytes() for a in (counts, out)]
    request = LaunchRequest(
        joined((KERNEL, DEVICE_RUNTIME)), "turns", (CTAS, 1, 1), (1, 1, 1),
        params=(*words, np.uint32(scope).tobytes()),
        attributes={COOPERATIVE: (1).to_bytes(64, "little")},
        placed=(("%envreg1", at >> 32), ("%envreg2", at & 0xFFFFFFFF)),
    )  # fmt: skip
    simulate(request, buffers=(counts, out, workspace))
    return out


def test_all_ctas_meet() -> None:
    assert (run(1) == CTAS * CTAS).all()


def test_a_group_that_is_no_grid_has_no_barrier() -> None:
    with pytest.raises(SimulationFault, match="trap"):
        run(2)


def test_the_library_is_known_by_its_object() -> None:
    head = b"!<arch>\n/               0           0     0     0       4         `\n\0\0\0\0"
    assert is_device_runtime(head + b"//\ncuda_device_runtime.o/\n")
    assert not is_device_runtime(head + b"//\nother.o/\n")
    assert not is_device_runtime(b"cuda_device_runtime.o/")
