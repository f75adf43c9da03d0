"""tcgen05.mma in numpy, from the layouts package and first principles, not from the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from testing.layouts.instr_desc import NARROW, InstrDescriptor, container_bits
from testing.layouts.smem_desc import SmemDescriptor
from testing.layouts.tmem_addr import a_lanes, d_cells, scale_cells

Array = npt.NDArray[np.float64]
MINIFLOAT = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}


def minifloat_table(exponent_bits: int, fraction_bits: int) -> Array:
    """Values of all codes of a small float without special values."""
    bias = (1 << (exponent_bits - 1)) - 1
    values = []
    for code in range(1 << (1 + exponent_bits + fraction_bits)):
        sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
        exponent = code >> fraction_bits & ((1 << exponent_bits) - 1)
        fraction = (code & ((1 << fraction_bits) - 1)) / (1 << fraction_bits)
        significand, scale = (1 + fraction, exponent) if exponent else (fraction, 1)
        values.append(sign * significand * 2.0 ** (scale - bias))
    return np.array(values)


def decode(codes: npt.NDArray[np.uint32], element: str) -> Array:
    """Values of element codes; NaN and infinity of the 8-bit types are not needed here."""
    if element == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    if element == "bf16":
        return (codes << 16).astype(np.uint32).view(np.float32).astype(np.float64)
    if element == "tf32":
        return (codes & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if element in ("u8", "s8"):
        signed = np.int8 if element == "s8" else np.uint8
        return codes.astype(np.uint8).view(signed).astype(np.float64)
    return minifloat_table(*MINIFLOAT[element])[codes]


def read_bits(
    image: npt.NDArray[np.uint8], bit: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.uint32]:
    """`width` bits at each bit address of a little-endian byte image."""
    wide = np.zeros(bit.shape, np.uint64)
    for k in range(5):
        byte = np.minimum(bit // 8 + k, len(image) - 1)
        wide |= image[byte].astype(np.uint64) << np.uint64(8 * k)
    return (wide >> (bit % 8).astype(np.uint64)).astype(np.uint32) & np.uint32((1 << width) - 1)


def smem_operand(
    window: npt.NDArray[np.uint8], desc: SmemDescriptor, q: InstrDescriptor, operand: str
) -> Array:
    """The [rows, k] operand "a" or "b" of one CTA; `window` is its shared memory from offset 0."""
    element, mn_major, rows = q.b, q.mn_major_b, q.n // q.group
    if operand == "a":
        element, mn_major, rows = q.a, q.mn_major_a, q.m // q.group
    bits = container_bits(q.kind, element)
    address = desc.bit_addresses(mn_major=mn_major, element_bits=bits, rows=rows, k=q.k)
    width = bits
    if element in NARROW and bits == 8:  # packed from the start of each 16-byte unit
        width = 4 if element == "e2m1" else 6
        address = address // 128 * 128 + address % 128 // 8 * width
    return decode(read_bits(window, address, width), element)


@dataclass
class Case:
    """One instruction and the memories it sees; `windows` and `tmem` have one entry per CTA."""

    desc: InstrDescriptor
    a: SmemDescriptor | None
    b: SmemDescriptor
    windows: list[npt.NDArray[np.uint8]]
    tmem: npt.NDArray[np.uint32]
    d_column: int = 0
    lane0: int = 0
    a_column: int = 0
    accumulate: bool = False
    scale_d: int = 0
    off_lanes: list[int] = field(default_factory=list)
    sfa_column: int = 0
    sfb_column: int = 0
    sf_block: int = 0

    def a_of(self, cta: int) -> list[Array]:
        """A of one CTA, once per copy that the data path layout keeps."""
        q = self.desc
        if self.a is not None:
            return [smem_operand(self.windows[cta], self.a, q, "a")] * 2
        copies = a_lanes(q.m, q.group, self.lane0)
        bits = container_bits(q.kind, q.a)
        index = np.arange(q.k) * bits
        out = []
        for lanes in copies:
            words = np.ascontiguousarray(self.tmem[cta][lanes, self.a_column : self.a_column + 8])
            out.append(
                np.stack([decode(read_bits(row.view(np.uint8), index, bits), q.a) for row in words])
            )
        return out * (3 - len(out))

    def scales(self, cta: int, column: int, rows: int, scale_id: int) -> Array:
        """Scale factors [rows, k]."""
        q = self.desc
        lane, offset = scale_cells(rows)[0].T
        words = self.tmem[cta][lane, column + offset]
        block = np.arange(q.k) // self.sf_block
        codes = words[:, None] >> (8 * (scale_id + block)).astype(np.uint32)[None] & np.uint32(0xFF)
        if q.scale_type == "ue8m0":
            return 2.0 ** (codes.astype(np.float64) - 127)
        return minifloat_table(4, 3)[codes & np.uint32(0x7F)]

    def expected(self) -> npt.NDArray[np.uint32]:
        """Tensor Memory of every CTA after the instruction, with one rounding per element."""
        q, out = self.desc, self.tmem.copy()
        b = np.concatenate([smem_operand(w, self.b, q, "b") for w in self.windows[: q.group]])
        b = -b if q.negate_b else b
        cells = d_cells(q.m, q.n, q.group, self.lane0)
        rows = q.m // q.group
        for cta in range(q.group):
            scaled_b = b
            copies = [-a if q.negate_a else a for a in self.a_of(cta)]
            if self.sf_block:
                scaled_b = b * self.scales(cta, self.sfb_column, q.n, q.sfb_id)
                copies = [a * self.scales(cta, self.sfa_column, rows, q.sfa_id) for a in copies]
            mine = cells[cta * rows : (cta + 1) * rows]
            lane, column = mine[..., 1], mine[..., 2] + self.d_column
            upper = (np.arange(q.n) >= q.n // 2) & (q.group == 2 and q.m == 128)
            total = np.where(upper[None], copies[1] @ scaled_b.T, copies[0] @ scaled_b.T)
            if self.accumulate:
                total = total + from_cells(self.tmem[cta][lane, column], q.d) * 2.0**-self.scale_d
            write = np.ones_like(lane, bool)
            if self.off_lanes:
                masks = np.array(self.off_lanes[4 * cta : 4 * cta + 4], np.uint32)
                write = (masks[lane // 32] >> (lane % 32).astype(np.uint32) & 1) == 0
            out[cta][lane[write], column[write]] = to_cells(total[write], q.d, q.saturate)
        return out


def from_cells(words: npt.NDArray[np.uint32], element: str) -> Array:
    """Accumulator cells as numbers."""
    if element == "f32":
        return words.view(np.float32).astype(np.float64)
    if element == "s32":
        return words.view(np.int32).astype(np.float64)
    return words.astype(np.uint16).view(np.float16).astype(np.float64)


def to_cells(values: Array, element: str, saturate: bool) -> npt.NDArray[np.uint32]:
    """Numbers rounded to the accumulator type; upper halves of f16 cells are 0."""
    if element == "f32":
        return values.astype(np.float32).view(np.uint32)
    if element == "s32":
        if saturate:
            values = np.clip(values, -(2.0**31), 2.0**31 - 1)
        return values.astype(np.int64).astype(np.uint32)
    return values.astype(np.float16).view(np.uint16).astype(np.uint32)
