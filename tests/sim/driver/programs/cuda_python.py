"""Vector addition with cuda-python; checks its own result."""
import ctypes
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

PTX = b""".version 8.7
.target sm_100a
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .u32 %r<6>; .reg .u64 %d<6>; .reg .f32 %f<3>; .reg .pred %p;
  ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [c]; ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p, %r4, %r0; @%p ret;
  mul.wide.u32 %d3, %r4, 4; add.u64 %d0, %d0, %d3;
  add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
  ld.global.f32 %f0, [%d0]; ld.global.f32 %f1, [%d1]; add.f32 %f2, %f0, %f1;
  st.global.f32 [%d2], %f2; ret; }
"""


def check(result: tuple[Any, ...]) -> Any:
    """The values of a call that went well."""
    error, *values = result
    if error != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(cu.cuGetErrorString(error)[1].decode())
    return values[0] if len(values) == 1 else values


check(cu.cuInit(0))
device = check(cu.cuDeviceGet(0))
print(check(cu.cuDeviceGetName(100, device)).decode().rstrip("\0"))
context = check(cu.cuDevicePrimaryCtxRetain(device))
check(cu.cuCtxSetCurrent(context))
module = check(cu.cuModuleLoadData(PTX))
kernel = check(cu.cuModuleGetFunction(module, b"add"))
n = 1000
a, b = (np.random.default_rng(k).standard_normal(n).astype(np.float32) for k in (0, 1))
out = np.empty_like(a)
memory = [check(cu.cuMemAlloc(a.nbytes)) for _ in range(3)]
check(cu.cuMemcpyHtoD(memory[0], a, a.nbytes))
check(cu.cuMemcpyHtoD(memory[1], b, b.nbytes))
values = (*memory, n)
kinds = (None, None, None, ctypes.c_uint32)
check(cu.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, cu.CUstream(0), (values, kinds), 0))
check(cu.cuMemcpyDtoH(out, memory[2], out.nbytes))
assert np.array_equal(out, a + b)
print("right")
