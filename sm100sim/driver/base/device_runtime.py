"""What `libcudadevrt.a` gives to kernels that are linked with it, as PTX.

That library holds machine code. Of its functions (`cuda_device_runtime_api.h` of the toolkit) those
for cooperative groups are here: the handle of the grid, and the barrier of all its CTAs. A call of
another one stops the run, as of every function that no text defines.
"""

from __future__ import annotations

from typing import Final

_ARCHIVE: Final = b"!<arch>\n"
_MEMBER: Final = b"cuda_device_runtime.o"
_LOOK: Final = 65_536
"""Bytes from the archive's start in which its only object is named."""
GRID_SCOPE: Final = 1
"""`cudaCGScopeGrid`."""
_COUNT: Final = 32
"""Bytes into the grid's workspace, where the CTAs that came are counted: its first half belongs to
the barrier in the toolkit's headers."""

DEVICE_RUNTIME: Final = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{{
  .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<2>;
  ld.param.u32 %r1, [scope];
  setp.eq.u32 %p1, %r1, {GRID_SCOPE};
  mov.u32 %r2, %envreg2;
  mov.u32 %r3, %envreg1;
  mov.b64 %rd1, {{%r2, %r3}};
  selp.b64 %rd2, %rd1, 0, %p1;
  st.param.b64 [result], %rd2;
  ret;
}}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{{
  .reg .b32 %r<16>; .reg .b64 %rd<3>; .reg .pred %p<4>;
  ld.param.u64 %rd1, [handle];
  setp.eq.u64 %p1, %rd1, 0;
  @%p1 trap;
  barrier.sync 0;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  or.b32 %r4, %r1, %r2;
  or.b32 %r5, %r4, %r3;
  setp.ne.u32 %p2, %r5, 0;
  @%p2 bra $L_all;
  mov.u32 %r6, %nctaid.x;
  mov.u32 %r7, %nctaid.y;
  mov.u32 %r8, %nctaid.z;
  mul.lo.u32 %r9, %r6, %r7;
  mul.lo.u32 %r10, %r9, %r8;
  add.u64 %rd2, %rd1, {_COUNT};
  atom.acq_rel.gpu.global.add.u32 %r11, [%rd2], 1;
  div.u32 %r12, %r11, %r10;
$L_wait:
  ld.acquire.gpu.global.u32 %r13, [%rd2];
  div.u32 %r14, %r13, %r10;
  setp.eq.u32 %p3, %r14, %r12;
  @%p3 bra $L_wait;
$L_all:
  barrier.sync 0;
  st.param.b32 [result], 0;
  ret;
}}
"""


def is_device_runtime(library: bytes) -> bool:
    """Whether an archive of objects is `libcudadevrt.a`: by the name of the object in it."""
    return library.startswith(_ARCHIVE) and _MEMBER in library[:_LOOK]
