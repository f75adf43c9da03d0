"""Matrices of a warp whose place in registers is unspecified (PTX ISA, "wmma.load", "wmma.mma",
"wmma.store").

Here it is that of `mma.sync`, so a product is a few of those. Where M is 8 and N is 32 the product
is computed transposed. Registers that f16 fragments have to spare hold what the first ones hold.
Single-bit and 4-bit matrices stop with the PTX line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...contract.codes import WGMMA_RESULTS, Space
from ...contract.forms import Memory, MmaSync
from ...contract.matrix import SYNC_ELEMENTS, SyncFlag
from ...ptx.program import Instr, Operand
from ..addressing import elements, place, take_space
from ..lowering import Lowering, Mods, Unit, instruction
from .matrix import ISSUE_CYCLES

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f64": 8, "f32": 4, "s32": 4}
_SMALL = ("m16n16k16", "m8n32k16", "m32n8k16")
SHAPES = {
    "f16": _SMALL, "bf16": _SMALL, "s8": _SMALL, "u8": _SMALL, "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",), "f32": (*_SMALL, "m16n16k8"), "s32": _SMALL,
}  # fmt: skip
"""Type -> shapes of the matrices of that type."""
RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
"""Type of A and B -> types of C and D; integers have s32."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True)
class Shape:
    """M, N and K, as tiles of the products that a warp makes."""

    m: int
    n: int
    k: int

    @property
    def transposed(self) -> bool:
        """B's columns are the rows of the products, and A's rows their columns."""
        return self.m < self.n and self.m == 8

    @property
    def tile(self) -> int:
        """Rows of a product: 16, of f64 8."""
        return min(16, max(self.m, self.n))

    def tiles(self) -> tuple[int, int]:
        """Products along the rows and along the columns."""
        rows, columns = (self.n, self.m) if self.transposed else (self.m, self.n)
        return rows // self.tile, columns // 8

    def rows_first(self, matrix: str) -> bool:
        """Whether a matrix gives the rows of the products."""
        return (matrix == "a") != self.transposed

    def registers(self, matrix: str, kind: str) -> int:
        """32-bit registers (64-bit ones of f64) that hold a matrix A or B once."""
        lines = self.m if matrix == "a" else self.n
        return lines * self.k * min(BYTES[kind], 4) // (32 * 4)


@dataclass(frozen=True)
class Part:
    """One element of a lane: its register, and its coordinates relative to the lane's own.

    The lane's own are (lane / 4, a multiple of lane % 4): row, or column, of a product, and what
    lies across it.
    """

    register: int
    line: int
    across: int


def _operand_parts(shape: Shape, matrix: str, kind: str) -> Iterator[Part]:
    """Elements of A or B: registers share 16 bytes of K (of f64, 4 elements)."""
    halves = shape.tile // 8 if shape.rows_first(matrix) else 1
    words = max(4 // BYTES[kind], 1)
    each = shape.k // (4 * words) * halves
    for register in range(shape.registers(matrix, kind)):
        tile, r = divmod(register, each)
        for j in range(words):
            yield Part(register, 8 * (halves * tile + r % halves), 4 * words * (r // halves) + j)


def _result_parts(shape: Shape, kind: str) -> Iterator[Part]:
    """Elements of C or D: pairs of neighbours in a row, tile after tile."""
    rows, columns = shape.tiles()
    packed = 2 if kind == "f16" else 1
    each = shape.tile // 8 * 2
    for tile in range(rows * columns):
        i, j = divmod(tile, columns)
        for e in range(each):
            yield Part((tile * each + e) // packed, shape.tile * i + 8 * (e // 2), 8 * j + e % 2)


@dataclass
class _Access:
    """A matrix in memory: (line + lane's line) and (across + lane's across) give an address."""

    lo: Lowering
    ins: Instr
    shape: Shape
    matrix: str
    kind: str
    space: Space
    by_row: bool
    _line: int = 0
    _across: int = 0
    _temps: list[int] = field(default_factory=list)

    def parts(self) -> list[Part]:
        """The elements of a lane."""
        if self.matrix in "ab":
            return list(_operand_parts(self.shape, self.matrix, self.kind))
        return list(_result_parts(self.shape, self.kind))

    def start(self) -> None:
        """Where the lane is in every product: its line, and how far across it begins."""
        lo = self.lo
        words = 2 if self.matrix in "cd" else max(4 // BYTES[self.kind], 1)
        self._line, self._across, *self._temps = (lo.temp(32) for _ in range(5))
        self._do("SHR_U32", self._line, lo.special("laneid"), lo.constant(2, 32))
        self._do("AND_32", self._across, lo.special("laneid"), lo.constant(3, 32))
        self._do("MUL_LO_32", self._across, self._across, lo.constant(words, 32))

    def address(self, at: Operand, stride: list[Operand], part: Part) -> tuple[int, int, int]:
        """(slot, offset, bits) of an element, from the address and the stride in elements."""
        lo = self.lo
        base, offset, bits = place(lo, at, self.space)
        line, across, index = self._temps
        self._do("ADD_32", line, self._line, lo.constant(part.line, 32))
        self._do("ADD_32", across, self._across, lo.constant(part.across, 32))
        swap = self.shape.transposed if self.matrix in "cd" else self.matrix == "b"
        row, column = (across, line) if swap else (line, across)
        outer, inner = (row, column) if self.by_row else (column, row)
        step = lo.src(stride[0], 32) if stride else lo.constant(self._width(), 32)
        self._do("MAD_LO_32", index, outer, step, inner)
        found = lo.temp(bits)
        size = lo.constant(BYTES[self.kind], 32)
        self._do("MAD_WIDE_U32" if bits == 64 else "MAD_LO_32", found, index, size, base)
        return found, offset, bits

    def _width(self) -> int:
        """The stride where none is given: the length of a line in memory."""
        sides = {"a": (self.shape.m, self.shape.k), "b": (self.shape.k, self.shape.n)}
        rows, columns = sides.get(self.matrix, (self.shape.m, self.shape.n))
        return columns if self.by_row else rows

    def _do(self, op: str, d: int, *sources: int) -> None:
        self.lo.emit(op, d=[d], s=sources)

    def form(self, bits: int) -> Memory:
        """The modifiers of one access."""
        return Memory(
            space=self.space, bytes=BYTES[self.kind], register_bits=self.width, address_bits=bits
        )

    @property
    def width(self) -> int:
        """Bits of the registers of a fragment."""
        return 64 if self.kind == "f64" else 32


def _access(lo: Lowering, ins: Instr, mods: Mods, *matrices: str) -> _Access:
    """Consume what loads and stores have in common."""
    matrix = mods.one_of(*matrices)
    layout = mods.one_of("row", "col")
    space = take_space(mods, "global", "shared", "shared::cta")
    kind, shape = mods.last(), _shape(lo, mods)
    mods.done()
    fits = {"a", "b"} if kind in ("bf16", "tf32", "s8", "u8") else {"c", "d"}
    if kind in ("f16", "f64"):
        fits = set("abcd")
    if matrix not in fits or f"m{shape.m}n{shape.n}k{shape.k}" not in SHAPES.get(kind, ()):
        raise lo.fail(f"no matrix {matrix} of type .{kind} in this shape")
    if not 2 <= len(ins.operands) <= 3:
        raise lo.fail(f"registers, an address and perhaps a stride; {len(ins.operands)} given")
    return _Access(lo, ins, shape, matrix, kind, space, layout == "row")


def _shape(lo: Lowering, mods: Mods) -> Shape:
    found = mods.maybe(*{shape for shapes in SHAPES.values() for shape in shapes})
    if found is None:
        raise lo.fail("wmma has the shapes m16n16k16, m8n32k16, m32n8k16, m16n16k8 and m8n8k4 here")
    return Shape(*map(int, _SHAPE.findall(found)[0]))


def _slots(lo: Lowering, operand: Operand, count: int, kind: str, matrix: str) -> list[Operand]:
    """The registers of a fragment; f16 operands have eight whatever they hold."""
    want = 8 if kind == "f16" and matrix in "ab" else count
    items = list(elements(operand))
    if len(items) != want:
        raise lo.fail(f"a matrix {matrix} of type .{kind} has {want} registers, {len(items)} given")
    return items


@instruction("wmma")
def wmma(lo: Lowering, ins: Instr) -> None:
    """wmma.load.{a,b,c}, wmma.store.d, wmma.mma .sync.aligned of f16, bf16, tf32, s8, u8, f64, in
    the shapes of each."""
    mods = Mods(ins)
    what = mods.one_of("load", "store", "mma")
    mods.one_of("sync")
    mods.one_of("aligned")
    lo.emit("ALIGNED")
    if what == "mma":
        _multiply(lo, ins, mods)
    elif what == "load":
        _load(lo, ins, _access(lo, ins, mods, "a", "b", "c"))
    else:
        _store(lo, ins, _access(lo, ins, mods, "d"))


def _load(lo: Lowering, ins: Instr, access: _Access) -> None:
    """Element by element; those of a register are put together."""
    parts, width = access.parts(), access.width
    count = parts[-1].register + 1
    items = _slots(lo, ins.operands[0], count, access.kind, access.matrix)
    registers = [lo.dst(item, width) for item in items]
    access.start()
    value, filled = lo.temp(width), dict.fromkeys(range(count), 0)
    for part in parts:
        at, offset, bits = access.address(ins.operands[1], list(ins.operands[2:]), part)
        lo.emit("LD", [value], (at,), access.form(bits), offset, 4, Unit.LSU)
        target, shift = registers[part.register], filled[part.register]
        if shift:
            place_value = lo.constant(1 << shift, 32)
            lo.emit("MAD_LO_32", d=[target], s=[value, place_value, target])
        else:
            lo.emit(f"MOV_{width}", d=[target], s=[value])
        filled[part.register] += 8 * BYTES[access.kind]
    for spare, slot in enumerate(registers[count:]):
        lo.emit("MOV_32", d=[slot], s=[registers[spare % count]])


def _store(lo: Lowering, ins: Instr, access: _Access) -> None:
    """Element by element, each taken out of its register."""
    parts, width = access.parts(), access.width
    items = _slots(lo, ins.operands[1], parts[-1].register + 1, access.kind, access.matrix)
    access.start()
    moved, taken = lo.temp(32), dict.fromkeys(range(len(items)), 0)
    for part in parts:
        at, offset, bits = access.address(ins.operands[0], list(ins.operands[2:]), part)
        value, shift = lo.src(items[part.register], width), taken[part.register]
        if shift:
            lo.emit("SHR_U32", d=[moved], s=[value, lo.constant(shift, 32)])
            value = moved
        lo.emit("ST", (), (at, value), access.form(bits), offset, 4, Unit.LSU)
        taken[part.register] += 8 * BYTES[access.kind]


def _types(lo: Lowering, mods: Mods) -> tuple[str, str]:
    """Types of A and B, and of C and D."""
    c, second = mods.last(), mods.last()
    if {c, second} <= {"f16", "f32"}:
        kind, d = "f16", second
    else:
        kind, other, d = second, mods.last(), mods.last()
        if kind != other:
            raise lo.fail(f"A of type .{other} does not go with B of type .{kind}")
    if c != d or d not in RESULTS.get(kind, ("s32",)):
        raise lo.fail(f"type .{kind} with C of type .{c} and D of type .{d}")
    return kind, d


def _multiply(lo: Lowering, ins: Instr, mods: Mods) -> None:
    """A product of mma.sync for every tile of D."""
    shape = _shape(lo, mods)
    for _ in "ab":
        mods.one_of("row", "col")
    saturate = mods.take("satfinite")
    nearest = mods.take("rn")
    kind, d = _types(lo, mods)
    if nearest and d != "f64":
        raise lo.fail("a rounding is a part of products of .f64")
    mods.done()
    if f"m{shape.m}n{shape.n}k{shape.k}" not in SHAPES[kind] or len(ins.operands) != 4:
        raise lo.fail(f"four operands in a shape of type .{kind} expected")
    if saturate and d != "s32":
        raise lo.fail(".satfinite of floats is not covered")
    width = 64 if d == "f64" else 32
    out, a, b, c = ins.operands
    counts = {x: shape.registers(x, kind) for x in "ab"}
    rows, columns = shape.tiles()
    each = shape.tile // 8 * 2 // (2 if d == "f16" else 1)
    held = {x: _slots(lo, y, counts[x], kind, x)[: counts[x]] for x, y in (("a", a), ("b", b))}
    top, side = (held["b"], held["a"]) if shape.transposed else (held["a"], held["b"])
    results = [_slots(lo, y, rows * columns * each, d, "d") for y in (out, c)]
    element = SYNC_ELEMENTS.index(kind)
    form = MmaSync(
        a=element, b=element, d=0 if d == "f64" else WGMMA_RESULTS.index(d), m=shape.tile,
        k=shape.k, flags=SyncFlag.SATURATE * saturate,
    )  # fmt: skip
    for tile in range(rows * columns):
        i, j = divmod(tile, columns)
        mine = slice(tile * each, tile * each + each)
        sources = [
            *top[len(top) // rows * i : len(top) // rows * (i + 1)],
            *side[len(side) // columns * j : len(side) // columns * (j + 1)],
            *results[1][mine],
        ]
        slots = [lo.src(item, width) for item in sources]
        targets = [lo.dst(item, width) for item in results[0][mine]]
        lo.emit("MMA_SYNC", targets, slots, form, 0, ISSUE_CYCLES)
