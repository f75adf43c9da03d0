"""TMA in tiled mode: loads that count their bytes on an mbarrier, stores in bulk groups.

A tensor map is a 128-byte kernel parameter; an instruction names it by its generic address and the
box by its first element (PTX ISA, "cp.async.bulk.tensor").
"""

import cutlass._mlir.dialects.cute as _cute_ir
import cutlass._mlir.dialects.cute_nvgpu as _nvgpu_ir
from cutlass import Int32, Int64, cute
from cutlass.cute.typing import AddressSpace
from cutlass.cutlass_dsl import dsl_user_op

from ..ptx import emit

TENSOR_MAP_ALIGN = 64


@dsl_user_op
def tensor_map_address(atom: cute.CopyAtom, *, loc=None, ip=None) -> Int64:
    """Return the generic address of the tensor map that a TMA atom parameter carries."""
    executable = _nvgpu_ir.atom_make_exec_tma(atom._trait.value, loc=loc, ip=ip)
    pointer_type = _cute_ir.PtrType.get(
        Int64.mlir_type, AddressSpace.generic, TENSOR_MAP_ALIGN
    )
    return _nvgpu_ir.get_tma_desc_addr(pointer_type, executable, loc=loc, ip=ip).toint()


def prefetch_map(tensor_map: Int64) -> None:
    """Fetch a tensor map into the descriptor cache."""
    emit("prefetch.tensormap [$0];", (), (tensor_map,))


def load_box(
    tensor_map: Int64,
    coordinates: tuple,
    destination: Int32,
    mbarrier: Int32,
    cta_group: int = 1,
) -> None:
    """Load one box; its full bytes, filled parts included, count on ``mbarrier``. One lane.

    Args:
        tensor_map: generic address of the map.
        coordinates: first element of the box, innermost dimension first.
        destination: shared address in this CTA.
        mbarrier: shared address in this CTA; with a ``cta_group`` of 2, the cluster address of an
            mbarrier of either CTA of the pair.
        cta_group: CTAs that share the MMAs which read the box.
    """
    rank = len(coordinates)
    box = ", ".join(f"${i + 3}" for i in range(rank))
    space, suffix = ("cta", "") if cta_group == 1 else ("cluster", f".cta_group::{cta_group}")
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        f"@leader cp.async.bulk.tensor.{rank}d.shared::{space}.global.tile"
        f".mbarrier::complete_tx::bytes{suffix} [$0], [$1, {{{box}}}], [$2];\n\t}}",
        (),
        (destination, tensor_map, mbarrier, *coordinates),
    )


def store_box(tensor_map: Int64, coordinates: tuple, source: Int32) -> None:
    """Store one box from shared memory; elements outside the tensor are dropped. One lane."""
    rank = len(coordinates)
    box = ", ".join(f"${i + 2}" for i in range(rank))
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        f"@leader cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
        f"[$1, {{{box}}}], [$0];\n\t}}",
        (),
        (source, tensor_map, *coordinates),
    )


def finish_stores() -> None:
    """Close the calling lanes' bulk group and wait until it has been written."""
    emit("cp.async.bulk.commit_group;")
    emit("cp.async.bulk.wait_group 0;")
