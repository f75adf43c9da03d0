"""Tensor maps written by a kernel (PTX ISA 9.7.9.28, "tensormap.replace", and 9.7.13.18,
"tensormap.cp_fenceproxy")."""

from __future__ import annotations

from ...contract.codes import MAP_FIELDS, Space
from ...contract.forms import MapAccess
from ...ptx.program import Instr
from ..addressing import SCOPES, place, take_space
from ..lowering import Lowering, Mods, Unit, instruction

WITH_ORDINAL = frozenset({"box_dim", "global_dim", "global_stride", "element_stride"})
WIDE = frozenset({"global_address", "global_stride"})
REPLACE_CYCLES = 8


@instruction("tensormap")
def tensormap(lo: Lowering, ins: Instr) -> None:
    """tensormap.replace.tile.field{.space}.b1024.{b32,b64} [a], {ordinal,} value;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [d],
    [s], 128."""
    mods = Mods(ins)
    if mods.take("cp_fenceproxy"):
        _copy(lo, ins, mods)
        return
    mods.one_of("replace")
    mods.one_of("tile")
    field = mods.one_of(*MAP_FIELDS)
    space = take_space(mods, "global", "shared::cta")
    mods.one_of("b1024")
    bits = 64 if mods.one_of("b32", "b64") == "b64" else 32
    mods.done()
    indexed = field in WITH_ORDINAL
    width = 64 if field in WIDE else 32
    if len(ins.operands) != 2 + indexed or bits != width:
        raise lo.fail(f"replacing {field} takes {2 + indexed} operands and .b{width}")
    ordinal = lo.imm_value(ins.operands[1]) if indexed else 0
    if not 0 <= ordinal <= 4:
        raise lo.fail(f"ordinal {ordinal} is not a dimension")
    slot, offset, address_bits = place(lo, ins.operands[0], space)
    lo.emit(
        "TENSORMAP_REPLACE",
        (),
        (slot, lo.src(ins.operands[-1], bits)),
        MapAccess(
            space=space, address_bits=address_bits, field=MAP_FIELDS.index(field), ordinal=ordinal,
            value_bits=bits,
        ),
        offset,
        REPLACE_CYCLES,
        Unit.LSU,
    )


def _copy(lo: Lowering, ins: Instr, mods: Mods) -> None:
    for name in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        mods.one_of(name)
    mods.one_of(*SCOPES)
    mods.done()
    if len(ins.operands) != 3 or lo.imm_value(ins.operands[2]) != 128:
        raise lo.fail("[destination], [source], 128 expected")
    dst, dst_offset, dst_bits = place(lo, ins.operands[0], Space.GLOBAL)
    src, src_offset, src_bits = place(lo, ins.operands[1], Space.SHARED_CTA)
    form = MapAccess(address_bits=dst_bits, source_bits=src_bits, source_offset=src_offset)
    lo.emit("TENSORMAP_COPY", (), (dst, src), form, dst_offset, 16, Unit.LSU)
