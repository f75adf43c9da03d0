"""Textures and surfaces (PTX ISA, "tex", "txq", "suld", "sust", "suq") of objects whose handles are
registers (Indirect texture access).

Mipmaps, gathers of cubes, several samples, depth, offsets, formatted stores and variables of type
`.texref`, `.samplerref`, `.surfref` stop with the PTX line.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...contract.forms import Surface, Texture
from ...contract.textures import SURFACE_MODES, TEXTURE_FACTS, TexelType
from ...ptx.program import Instr, Operand, Reg, TensorAddress
from ...ptx.types import TYPES
from ..addressing import CACHE, destination, elements, register_bits, registers, source
from ..lowering import Lowering, Mods, Unit, instruction

TEXEL_CYCLES = 4
"""Modelled issue cycles of a fetch or an access of a warp; none is published."""
RANKS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
"""Dimensions by geometry."""
CHANNELS = "rgba"
_TYPES = {"u32": TexelType.UNSIGNED, "s32": TexelType.SIGNED, "f32": TexelType.FLOAT}


def _place(lo: Lowering, operand: Operand, geometry: str) -> list[int]:
    """Slots of `[handle, {layer, coordinates}]`; those that fill a vector up are left out."""
    if not isinstance(operand, TensorAddress) or operand.base.offset:
        raise lo.fail("[handle, {coordinates}] expected")
    count = RANKS[geometry] + geometry.startswith("a") + geometry.endswith("cube")
    given = operand.coords.items
    if len(given) not in (count, len(CHANNELS)):
        raise lo.fail(f"{count} coordinates of .{geometry} expected, {len(given)} given")
    base = operand.base.base
    if not isinstance(base, Reg):
        raise lo.fail("an object's handle in a register is expected; variables are not covered")
    return [lo.src(base, 64), *(lo.src(item, 32) for item in given[:count])]


def _texels(
    lo: Lowering, ins: Instr, mods: Mods, op: str, geometries: Iterable[str], channel: int
) -> None:
    """A fetch, or a gather of one channel, after its own modifiers."""
    geometry = mods.one_of(*geometries)
    mods.one_of("v4")
    coordinates, kind = mods.last(), mods.last()
    mods.done()
    cube = geometry.endswith("cube")
    floats = cube or op == "TLD4"
    if kind not in _TYPES or coordinates not in (("f32",) if floats else ("s32", "f32")):
        raise lo.fail(f"results of type .{kind} by coordinates of type .{coordinates}")
    if len(ins.operands) != 2:
        raise lo.fail("offsets and depths to compare with are not covered")
    lo.emit(
        op,
        [lo.dst(x, 32) for x in registers(lo, ins.operands[0], len(CHANNELS), "d")],
        _place(lo, ins.operands[1], geometry),
        Texture(
            rank=RANKS[geometry], layered=geometry.startswith("a"), cube=cube, type=_TYPES[kind],
            integer=coordinates == "s32",
        ),
        channel,
        TEXEL_CYCLES,
        Unit.LSU,
    )


@instruction("tex")
def fetch(lo: Lowering, ins: Instr) -> None:
    """tex{.base}.{1d,2d,3d,a1d,a2d,cube,acube}.v4.{u32,s32,f32}.{s32,f32} d, [handle, {c}]."""
    mods = Mods(ins)
    mods.take("base")
    _texels(lo, ins, mods, "TEX", RANKS, 0)


@instruction("tld4")
def gather(lo: Lowering, ins: Instr) -> None:
    """tld4{.base}.{r,g,b,a}.{2d,a2d}.v4.{u32,s32,f32}.f32 d, [handle, {c}]."""
    mods = Mods(ins)
    mods.take("base")
    channel = mods.one_of(*CHANNELS)
    _texels(lo, ins, mods, "TLD4", ("2d", "a2d"), CHANNELS.index(channel))


@instruction("txq", "suq")
def query(lo: Lowering, ins: Instr) -> None:
    """txq, suq .{width,height,depth,array_size,normalized_coords}.b32 d, [handle]."""
    mods = Mods(ins)
    mods.one_of("b32")
    fact = mods.one_of(*TEXTURE_FACTS)
    mods.done()
    handle, offset, bits = lo.address(ins.operands[1])
    if bits != 64 or offset:
        raise lo.fail("an object's handle is expected")
    lo.emit("TXQ", (lo.dst(ins.operands[0], 32),), (handle,), imm=TEXTURE_FACTS.index(fact))


def _surface(lo: Lowering, ins: Instr, at: Operand, data: Operand) -> tuple[list[int], Surface]:
    """Slots of the place and the form, after all modifiers of suld.b and sust.b."""
    mods = Mods(ins)
    mods.one_of("b")
    geometry = mods.one_of(*(name for name in RANKS if not name.endswith("cube")))
    for name in CACHE:
        mods.take(name)
    vector = mods.maybe("v2", "v4")
    mode = mods.one_of(*SURFACE_MODES)
    kind = mods.one_of("b8", "b16", "b32", "b64")
    mods.done()
    items = elements(data)
    if len(items) != (int(vector[1]) if vector else 1):
        raise lo.fail(f"{len(items)} registers for .{vector or 'scalar'}")
    bits = TYPES[kind].bits
    form = Surface(
        rank=RANKS[geometry], layered=geometry.startswith("a"), bytes=bits // 8,
        register_bits=register_bits(lo, items, bits), mode=SURFACE_MODES.index(mode),
    )  # fmt: skip
    return _place(lo, at, geometry), form


@instruction("suld")
def load_surface(lo: Lowering, ins: Instr) -> None:
    """suld.b.{1d,2d,3d,a1d,a2d}{cache}{.v2 .v4}.{b8,b16,b32,b64}.{trap,clamp,zero} d, [handle,
    {c}]: x counts bytes."""
    place, form = _surface(lo, ins, ins.operands[1], ins.operands[0])
    targets = [destination(lo, x, form.register_bits) for x in elements(ins.operands[0])]
    lo.emit("SULD", targets, place, form, 0, TEXEL_CYCLES, Unit.LSU)


@instruction("sust")
def store_surface(lo: Lowering, ins: Instr) -> None:
    """sust.b.{1d,2d,3d,a1d,a2d}{cache}{.v2 .v4}.{b8,b16,b32,b64}.{trap,clamp,zero} [handle, {c}],
    d: x counts bytes."""
    place, form = _surface(lo, ins, ins.operands[0], ins.operands[1])
    width = form.register_bits
    data = [source(lo, x, 8 * form.bytes, width) for x in elements(ins.operands[1])]
    lo.emit("SUST", (), (*place, *data), form, 0, TEXEL_CYCLES, Unit.LSU)
