"""What wgmma.mma_async gives, stated in float64 over matrices that are read from the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from testing.hardware.case import Case
from testing.hardware.micro.mma.programs import Form as WarpForm
from testing.hardware.micro.wgmma.programs import A_BYTES, BITS, THREADS, Form, M
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.warp.test_sparse import places

SWIZZLES = {"none": Swizzle.NONE, "128": Swizzle.B128, "64": Swizzle.B64, "32": Swizzle.B32}
FLOATS = {
    "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}  # fmt: skip
INTEGERS = {"u8": np.uint8, "s8": np.int8}

Matrix = npt.NDArray[np.float64]


def values(kind: str, raw: npt.NDArray[np.uint8]) -> Matrix:
    """Elements in `raw`, whose last dimension is bytes of one element."""
    flat = np.ascontiguousarray(raw)
    if kind in INTEGERS:
        return flat.view(INTEGERS[kind])[..., 0].astype(np.float64)
    if kind == "tf32":
        return (flat.view(np.uint32)[..., 0] & 0xFFFFE000).view(np.float32).astype(np.float64)
    return torch.from_numpy(flat).view(FLOATS[kind])[..., 0].double().numpy()


def operand(form: Form, image: npt.NDArray[np.uint8], *, is_a: bool) -> Matrix:
    """A [64, K] or B [N, K] as the descriptors name it."""
    kind, mn_major = (form.a, form.majors[0]) if is_a else (form.b, form.majors[1])
    wide = 1 if is_a else form.sparse
    lbo, sbo = form.strides(mn_major=mn_major, wide=wide)
    descriptor = SmemDescriptor(0 if is_a else A_BYTES, lbo, sbo, SWIZZLES[form.swizzle])
    at = descriptor.bit_addresses(
        mn_major=mn_major, element_bits=BITS[kind], rows=M if is_a else form.n,
        k=256 * wide // BITS[kind],
    )  # fmt: skip
    width = BITS[kind] // 8
    return values(kind, image[at[..., None] // 8 + np.arange(width)])


def a_of_registers(form: Form, words: npt.NDArray[np.uint32]) -> Matrix:
    """A [64, K] from four registers of each thread."""
    width = BITS[form.a] // 8
    rows = np.zeros((M, 8), np.uint32)
    thread, register = np.indices((THREADS, 4))
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (register % 2)
    rows[row, register // 2 * 4 + thread % 4] = words.reshape(THREADS, 4)
    return values(form.a, rows.view(np.uint8).reshape(M, -1, width))


def spread(form: Form, kept: Matrix, metadata: npt.NDArray[np.uint32]) -> Matrix:
    """A [64, K] from its kept elements; each warp's metadata lies as that of mma.sp does."""
    bits = BITS[form.a]
    form_of_warp = WarpForm(form.d, form.a, form.b, 16, 512 // bits, form.selector)
    out = np.zeros((M, 512 // bits))
    for row in range(M):
        words = metadata.reshape(4, 32)[row // 16]
        out[row, places(form_of_warp, words, row % 16)] = kept[row]
    return out


def cells(form: Form) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(row, column) of D of every element [thread, element]."""
    thread, e = np.indices((THREADS, form.n // 2))
    row = thread // 32 * 16 + thread % 32 // 4 + e // 2 % 2 * 8
    return row, e // 4 * 8 + thread % 4 * 2 + e % 2


def expected(form: Form, case: Case) -> npt.NDArray[Any]:
    """D [thread, element] in its own type; sums must be exact in float64."""
    image = case.inputs[0].view(np.uint8)
    a = a_of_registers(form, case.inputs[2]) if form.registers else operand(form, image, is_a=True)
    if form.selector is not None:
        a = spread(form, a, case.inputs[3])
    product = form.signs[0] * form.signs[1] * (a @ operand(form, image, is_a=False).T)
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[form.d]
    d = case.inputs[1].view(kind).reshape(THREADS, -1).astype(np.float64) * form.accumulate
    for _ in range(form.count):
        d = d + product[cells(form)]
        if kind is np.int32:
            d = np.clip(d, -(2**31), 2**31 - 1) if form.saturate else (d + 2**31) % 2**32 - 2**31
        d = d.astype(kind).astype(np.float64)
    return d.astype(kind)
