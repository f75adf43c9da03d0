"""Triton kernels that judge the machine; Triton reads their source from this file."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from benchmarks.timing.judges.cases import (
    COPIED,
    POINTED,
    TRITON_ATTENTION,
    TRITON_BAGS,
    TRITON_FLAGGED,
    TRITON_HOPS,
    TRITON_LONG,
    TRITON_NORM,
    TRITON_SOFTMAX,
    TRITON_SUMS,
    TRITON_TAPS,
    TRITON_TURNED,
    TRITON_WEIGHED,
    Case,
)
from benchmarks.timing.judges.problems import (
    EPSILON,
    Attention,
    Bags,
    Flagged,
    Hops,
    Product,
    Taps,
    Tensors,
)

STEP, SPAN, TOGETHER = 64, 1024, 8
STRIP: tl.constexpr = tl.constexpr(64)
"""Columns of a CTA that transposes."""
LOG2_E = 1.4426950408889634


@triton.jit
def copied_product(a, b, out, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    """out = a b', tiles of boxes (M, STEP) and (N, STEP)."""
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(a.load([i, k]), b.load([j, k]).T, total)
    out.store([i, j], total.to(tl.float16))


@triton.jit
def pointed_product(a, b, out, K, width, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    """out = a b', tiles by the pointers of their elements."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    steps = tl.arange(0, STEP)
    left = a + rows[:, None] * K + steps[None, :]
    right = b + columns[None, :] * K + steps[:, None]
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(tl.load(left + k), tl.load(right + k), total)
    tl.store(out + rows[:, None] * width + columns[None, :], total.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, length, scale,
    ROWS: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Rows of one head, of (rows, DIM); `scale` counts powers of two."""
    first = tl.program_id(0) * ROWS
    head = tl.program_id(1) * length
    queries = q.load([head + first, 0])
    places = first + tl.arange(0, ROWS)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, DIM), tl.float32)
    last = first + ROWS if CAUSAL else length
    for at in range(0, last, KEYS):
        scores = tl.dot(queries, k.load([head + at, 0]).T) * scale
        if CAUSAL:
            keys = at + tl.arange(0, KEYS)
            scores = tl.where(keys[None, :] <= places[:, None], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        fades = tl.exp2(top - higher)
        total = total * fades + tl.sum(weights, 1)
        found = tl.dot(weights.to(tl.float16), v.load([head + at, 0]), found * fades[:, None])
        top = higher
    out.store([head + first, 0], (found / total[:, None]).to(tl.float16))


@triton.jit
def softmax(x, out, WIDTH: tl.constexpr):
    """One row of x."""
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    row = tl.load(x + at).to(tl.float32)
    weights = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, (weights / tl.sum(weights, 0)).to(tl.float16))


@triton.jit
def layer_norm(x, weight, bias, out, epsilon, WIDTH: tl.constexpr):
    """One row of x."""
    columns = tl.arange(0, WIDTH)
    at = tl.program_id(0) * WIDTH + columns
    row = tl.load(x + at).to(tl.float32)
    row -= tl.sum(row, 0) / WIDTH
    factor = tl.rsqrt(tl.sum(row * row, 0) / WIDTH + epsilon)
    scaled = row * factor * tl.load(weight + columns) + tl.load(bias + columns)
    tl.store(out + at, scaled.to(tl.float16))


@triton.jit
def taps(x, weight, out, wide, narrow, TAPS: tl.constexpr, WIDTH: tl.constexpr):
    """WIDTH places of a row."""
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    at = x + tl.program_id(0) * wide + columns
    total = tl.zeros((WIDTH,), tl.float32)
    for tap in range(TAPS):
        total += tl.load(at + tap).to(tl.float32) * tl.load(weight + tap).to(tl.float32)
    tl.store(out + tl.program_id(0) * narrow + columns, total.to(tl.float16))


@triton.jit
def bags(x, table, out, EACH: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """EACH bags, one after the other."""
    columns = tl.arange(0, WIDTH)
    for bag in range(tl.program_id(0) * EACH, tl.program_id(0) * EACH + EACH):
        total = tl.zeros((WIDTH,), tl.float32)
        for k in range(SIZE):
            row = tl.load(table + bag * SIZE + k)
            total += tl.load(x + row * WIDTH + columns).to(tl.float32)
        tl.store(out + bag * WIDTH + columns, total.to(tl.float16))


@triton.jit
def flagged(x, table, out, EACH: tl.constexpr, WIDTH: tl.constexpr, SCOPE: tl.constexpr):
    """EACH rows, one after the other; who sees a row's count, if SCOPE has one, sees its sum."""
    columns = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0) * EACH, tl.program_id(0) * EACH + EACH):
        total = tl.sum(tl.load(x + row * WIDTH + columns).to(tl.float32), 0)
        tl.store(out + row, total.to(tl.float16))
        if SCOPE != "":
            tl.atomic_add(table + row, 1, sem="acq_rel", scope=SCOPE)


@triton.jit
def hops(x, table, out, EACH: tl.constexpr, WIDTH: tl.constexpr):
    """EACH rows, each of which names the next."""
    row = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    total = 0.0
    for _ in range(EACH):
        total += tl.sum(tl.load(x + row * WIDTH + columns).to(tl.float32), 0)
        row = tl.load(table + row)
    tl.store(out + tl.program_id(0), total)


@triton.jit
def long_softmax(x, out, columns, WIDTH: tl.constexpr):
    """One row of x, WIDTH columns at a time, once for its sum and once for its results."""
    row = tl.program_id(0) * columns
    places = tl.arange(0, WIDTH)
    top = tl.full((WIDTH,), -float("inf"), tl.float32)
    total = tl.zeros((WIDTH,), tl.float32)
    for at in range(0, columns, WIDTH):
        part = tl.load(x + row + at + places).to(tl.float32)
        higher = tl.maximum(top, part)
        total = total * tl.exp(top - higher) + tl.exp(part - higher)
        top = higher
    most = tl.max(top, 0)
    whole = tl.sum(total * tl.exp(top - most), 0)
    for at in range(0, columns, WIDTH):
        part = tl.load(x + row + at + places).to(tl.float32)
        tl.store(out + row + at + places, (tl.exp(part - most) / whole).to(tl.float16))


@triton.jit
def weighed(x, weight, out, columns, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """ROWS rows of x, one after the other."""
    places = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0) * ROWS, tl.program_id(0) * ROWS + ROWS):
        total = tl.zeros((WIDTH,), tl.float32)
        for at in range(0, columns, WIDTH):
            part = tl.load(x + row * columns + at + places).to(tl.float32)
            total += part * tl.load(weight + at + places).to(tl.float32)
        tl.store(out + row, tl.sum(total, 0).to(tl.float16))


@triton.jit
def transposed(x, out, rows, columns, WIDTH: tl.constexpr):
    """WIDTH rows of x, one column after the other."""
    places = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    for column in range(tl.program_id(1) * STRIP, tl.program_id(1) * STRIP + STRIP):
        tl.store(out + column * rows + places, tl.load(x + places * columns + column))


def _product(case: Case, t: Tensors) -> None:
    p, (rows, columns) = case.problem, case.options["tile"]
    assert isinstance(p, Product)
    grid = (p.m // rows, p.n // columns)
    how = {"num_warps": case.options["warps"], "num_stages": case.options["stages"]}
    if case.family == POINTED:
        pointed_product[grid](
            t["a"], t["b"], t["out"], p.k, p.n, M=rows, N=columns, STEP=STEP, **how
        )
        return
    boxes = {"a": (rows, STEP), "b": (columns, STEP), "out": (rows, columns)}
    a, b, out = (TensorDescriptor.from_tensor(t[n], list(box)) for n, box in boxes.items())
    copied_product[grid](a, b, out, p.k, M=rows, N=columns, STEP=STEP, **how)


def _attention(case: Case, t: Tensors) -> None:
    p, (rows, keys) = case.problem, case.options["tile"]
    assert isinstance(p, Attention)
    heights = {"q": rows, "k": keys, "v": keys, "out": rows}
    boxes = [
        TensorDescriptor.from_tensor(t[n].view(-1, p.dim), [height, p.dim])
        for n, height in heights.items()
    ]
    attention[p.length // rows, p.batch * p.heads](
        *boxes, p.length, p.dim**-0.5 * LOG2_E, ROWS=rows, KEYS=keys, DIM=p.dim, CAUSAL=p.causal,
        num_warps=case.options["warps"], num_stages=case.options["stages"],
    )  # fmt: skip


def _softmax(case: Case, t: Tensors) -> None:
    rows, columns = t["x"].shape
    softmax[rows,](t["x"], t["out"], WIDTH=columns, num_warps=case.options["warps"])


def _layer_norm(case: Case, t: Tensors) -> None:
    rows, columns = t["x"].shape
    layer_norm[rows,](
        t["x"], t["weight"], t["bias"], t["out"], EPSILON, WIDTH=columns,
        num_warps=case.options["warps"],
    )  # fmt: skip


def _taps(case: Case, t: Tensors) -> None:
    p = case.problem
    assert isinstance(p, Taps)
    wide = p.columns + p.taps
    taps[p.rows, p.columns // SPAN](
        t["x"], t["weight"], t["out"], wide, p.columns, TAPS=p.taps, WIDTH=SPAN,
        num_warps=case.options["warps"],
    )  # fmt: skip


def _bags(case: Case, t: Tensors) -> None:
    p = case.problem
    assert isinstance(p, Bags)
    bags[p.bags // p.each,](
        t["x"], t["table"], t["out"], EACH=p.each, SIZE=p.size, WIDTH=p.columns,
        num_warps=case.options["warps"],
    )  # fmt: skip


def _flagged(case: Case, t: Tensors) -> None:
    p = case.problem
    assert isinstance(p, Flagged)
    flagged[p.rows // p.each,](
        t["x"], t["table"], t["out"], EACH=p.each, WIDTH=p.columns, SCOPE=case.options["scope"],
        num_warps=case.options["warps"],
    )  # fmt: skip


def _hops(case: Case, t: Tensors) -> None:
    p = case.problem
    assert isinstance(p, Hops)
    hops[p.rows // p.each,](
        t["x"], t["table"], t["out"], EACH=p.each, WIDTH=p.columns, num_warps=case.options["warps"]
    )


def _long_softmax(case: Case, t: Tensors) -> None:
    rows, columns = t["x"].shape
    long_softmax[rows,](t["x"], t["out"], columns, WIDTH=SPAN, num_warps=case.options["warps"])


def _weighed(case: Case, t: Tensors) -> None:
    rows, columns = t["x"].shape
    weighed[rows // TOGETHER,](
        t["x"], t["weight"], t["out"], columns, ROWS=TOGETHER, WIDTH=SPAN,
        num_warps=case.options["warps"],
    )  # fmt: skip


def _transposed(case: Case, t: Tensors) -> None:
    rows, columns = t["x"].shape
    width = 32 * case.options["warps"]
    transposed[rows // width, columns // STRIP.value](
        t["x"], t["out"], rows, columns, WIDTH=width, num_warps=case.options["warps"]
    )


PROGRAMS = {
    COPIED: _product, POINTED: _product, TRITON_ATTENTION: _attention,
    TRITON_SOFTMAX: _softmax, TRITON_NORM: _layer_norm, TRITON_TAPS: _taps,
    TRITON_BAGS: _bags, TRITON_LONG: _long_softmax, TRITON_WEIGHED: _weighed,
    TRITON_TURNED: _transposed, TRITON_FLAGGED: _flagged,
    TRITON_SUMS: _flagged, TRITON_HOPS: _hops,
}  # fmt: skip
"""Asks for a case's launch, by family."""
