"""Programs whose results say which shared-memory bytes a matrix descriptor of wgmma names.

Every 16-bit cell of shared memory holds its own number as the bits of a finite f16, and the other
operand is an identity matrix. So an f32 result is the number of the cell that an element was read
from. One CTA per descriptor, one program per operand, major direction and swizzle.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from testing.layouts.smem_desc import SmemDescriptor, Swizzle

CELLS = 12288
"""Numbered cells from the 1024-byte aligned base of shared memory on: fewer than the 14336 finite
positive normal f16 below 1.0, the identity's value."""

FIRST = 0x0400
"""Bits of the smallest normal f16: the content of cell 0."""

ROWS, K = 64, 16
IDENTITY_BYTES = ROWS * K * 2
IDENTITY = SmemDescriptor(CELLS * 2, lbo=128, sbo=256)
IMAGE_BYTES = CELLS * 2 + IDENTITY_BYTES
SHOWN = ROWS * K * 4
"""Bytes of the result that are written per CTA: the identity's rows or columns only."""

STARTS = (0, 16, 32, 64, 96, 128, 160, 256, 384, 512, 544, 768, 896, 1024)
BASE_OFFSET_BIT = 49
SM100_CONSTANT = 1 << 46


@dataclass(frozen=True)
class Question:
    """One descriptor: `start`, `lbo` and `sbo` in bytes, `start` from the aligned base on."""

    start: int
    lbo: int
    sbo: int
    base_offset: int

    def word(self, swizzle: Swizzle) -> int:
        """The sm_90 descriptor; its swizzle codes 1, 2, 3 at bit 62 are sm_100's 2, 4, 6 at 61."""
        return hopper(SmemDescriptor(self.start, self.lbo, self.sbo, swizzle)) | (
            self.base_offset << BASE_OFFSET_BIT
        )


def hopper(descriptor: SmemDescriptor) -> int:
    """A descriptor without the constant that sm_100 added."""
    return descriptor.encode() & ~SM100_CONSTANT


def image() -> bytes:
    """Shared memory: the numbered cells, then the identity [64, 16] in the packed layout."""
    cells = np.arange(FIRST, FIRST + IMAGE_BYTES // 2).astype(np.uint16)
    identity = np.zeros((ROWS, K), np.float16)
    identity[:K] = np.eye(K)
    at = IDENTITY.bit_addresses(mn_major=False, element_bits=16, rows=ROWS, k=K) // 16
    cells[at] = identity.view(np.uint16)
    return cells.tobytes()


def text(operand: str, mn_major: bool) -> str:
    """PTX: copy the image, one wgmma with the CTA's two descriptors, write the result."""
    acc = ", ".join(f"%f{i}" for i in range(32))
    transpose = f"{int(mn_major and operand == 'A')}, {int(mn_major and operand == 'B')}"
    shown, step = (8, 512) if operand == "A" else (32, 128)
    stores = "\n".join(f"@%q1 st.global.f32 [%rd3+{i * step}], %f{i};" for i in range(shown))
    return f""".version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 image, .param .u64 table, .param .u64 out)
.maxntid 128, 1, 1
{{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<32>; .reg .pred %q<2>;
mov.u32 %r0, %tid.x; mov.u32 %r1, dyn; add.u32 %r1, %r1, 1023; and.b32 %r1, %r1, -1024;
ld.param.u64 %rd0, [image]; shl.b32 %r2, %r0, 2; cvt.u64.u32 %rd4, %r2; add.s64 %rd0, %rd0, %rd4;
add.u32 %r3, %r1, %r2; mov.u32 %r4, {IMAGE_BYTES // 512};
F: ld.global.b32 %r5, [%rd0]; st.shared.b32 [%r3], %r5; add.s64 %rd0, %rd0, 512;
add.u32 %r3, %r3, 512; add.u32 %r4, %r4, -1; setp.ne.u32 %q0, %r4, 0; @%q0 bra F;
fence.proxy.async.shared::cta; bar.sync 0;
mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd5, %r6, 32; ld.param.u64 %rd0, [table];
add.s64 %rd0, %rd0, %rd5; ld.global.b64 %rd1, [%rd0]; ld.global.b64 %rd2, [%rd0+8];
st.global.b32 [%rd0+16], %r1; shr.u32 %r5, %r1, 4; cvt.u64.u32 %rd5, %r5;
add.s64 %rd1, %rd1, %rd5; add.s64 %rd2, %rd2, %rd5;
wgmma.fence.sync.aligned; setp.ne.u32 %q0, %r1, %r1;
wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{acc}}}, %rd1, %rd2, %q0, 1, 1, {transpose};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ld.param.u64 %rd3, [out]; mul.wide.u32 %rd5, %r6, {SHOWN}; add.s64 %rd3, %rd3, %rd5;
add.s64 %rd3, %rd3, %rd4; setp.lt.u32 %q1, %r0, {step // 4};
{stores}
ret;
}}
"""


def cells_read(operand: str, out: np.ndarray) -> np.ndarray:
    """Cell numbers [descriptors, 64, 16], -1 for what is not a cell, of the written results."""
    shape = (-1, 8, 128) if operand == "A" else (-1, 32, 32)
    values = out.view(np.float32).reshape(shape)
    register, thread = np.indices(values.shape[1:])
    row = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    column = register // 4 * 8 + thread % 4 * 2 + register % 2
    matrix = np.empty((values.shape[0], ROWS, K), np.float32)
    matrix[:, *((row, column) if operand == "A" else (column, row))] = values
    exact = matrix.astype(np.float16).astype(np.float32) == matrix
    cells = matrix.astype(np.float16).view(np.uint16).astype(np.int64) - FIRST
    return np.where(exact & (cells >= 0) & (cells < CELLS), cells, -1)


def unpack(row: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Absolute byte addresses [descriptors, 64, 16]; -1 where no numbered cell was read."""
    steps = np.frombuffer(zlib.decompress(base64.b64decode(row["cells"])), "<i2")
    cells = np.cumsum(steps.astype(np.int64)).reshape(-1, ROWS, K)
    return np.where(cells < 0, -1, row["base"] + cells * 2)
