"""Kernels of the tests; Triton reads their source from this file."""

from __future__ import annotations

# Triton reads annotations of parameters: they have one where they are constants, and no other.
# mypy: allow-untyped-defs, allow-incomplete-defs
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)


@triton.jit
def add(x, y, out, count, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside) * factor, inside)


@triton.jit(repr=lambda _specialised: "under_another_name")
def negate(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, -tl.load(x + i))


@triton.jit
def overrun(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < count))


@triton.jit
def doubled_each(sources, out, BLOCK: tl.constexpr):
    g, i = tl.program_id(0), tl.arange(0, BLOCK)
    source = tl.load(sources + g).to(tl.pointer_type(tl.float32))
    tl.store(out + g * BLOCK + i, 2 * tl.load(source + i))


@triton.jit
def softmax(x, out, width, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * width + i, mask=i < width, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * width + i, v / tl.sum(v, 0), mask=i < width)


@triton.jit
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(left, right))


@triton.jit
def tiled_product(
    a,
    b,
    out,
    K,
    M: tl.constexpr,
    N: tl.constexpr,
    STEP: tl.constexpr,
    SPECIAL: tl.constexpr,
):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in tl.range(0, K, STEP, warp_specialize=SPECIAL):
        total = tl.dot(a.load([i, k]), b.load([j, k]).T, total)
    out.store([i, j], total.to(tl.float16))


@triton.jit
def permuted(x, out, order, WIDTH: tl.constexpr):
    """Rows of x in another order, and these back to where they came from."""
    rows = tl.load(order + tl.arange(0, 32))
    out.store([0, 0], x.gather(rows, 0))
    x.scatter(x.gather(rows, 0) + 1, rows, 0)


@triton.jit
def talkative(x, limit):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    tl.device_print("value", v)
    tl.device_assert(v < limit, "too large")


@triton.jit(noinline=True)
def scaled(x, out, factor):
    i = tl.arange(0, 128)
    tl.store(out + i, tl.load(x + i) * factor + 1)


@triton.jit
def outlined(x, out, factor):
    scaled(x, out, factor)


@gluon.jit
def doubled(x, out, count, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out + i, gl.load(x + i, mask=i < count) * 2, mask=i < count)


@gluon.jit
def gluon_product(a_desc, b_desc, d_desc):
    M: gl.constexpr = a_desc.block_type.shape[0]
    N: gl.constexpr = b_desc.block_type.shape[1]
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    mbarrier.expect(done, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tma.async_load(a_desc, [0, 0], done, a)
    tma.async_load(b_desc, [0, 0], done, b)
    mbarrier.wait(done, phase=0)
    layout: gl.constexpr = TensorMemoryLayout([M, N], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [M, N], layout)
    tcgen05_mma(a, b, total, use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, phase=1)
    mbarrier.invalidate(done)
    d = gl.allocate_shared_memory(d_desc.dtype, d_desc.block_type.shape, d_desc.layout)
    d.store(total.load().to(d_desc.dtype))
    fence_async_shared()
    tma.async_store(d_desc, [0, 0], d)
    tma.store_wait(pendings=0)


@gluon.jit
def pixels(images, out, start, tap: gl.constexpr):
    """One column of pixels by an im2col copy, from the place `start` of the output on."""
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    held = gl.allocate_shared_memory(images.dtype, images.block_type.shape, images.layout)
    mbarrier.expect(done, images.block_type.nbytes)
    tma.async_load_im2col(images, [0, start - 1, -1, 0], [tap, tap], done, held)
    mbarrier.wait(done, phase=0)
    mbarrier.invalidate(done)
    tma.async_store(out, [0, 0], held)
    tma.store_wait(pendings=0)
