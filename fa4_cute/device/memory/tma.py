"""TMA in tiled mode: loads that count their bytes on an mbarrier, stores in bulk groups.

A tensor map is a 128-byte kernel parameter; an instruction names it by its generic address and the
box by its first element (PTX ISA, "cp.async.bulk.tensor").
"""

from cutlass import Int32, Int64, cute

from ...plan.facts.hardware import TENSOR_MAP_ALIGN
from .. import dsl
from ..pointers import generic
from ..ptx import emit

Coordinates = tuple[Int32 | int, ...]
"""Of a box in its tensor, fastest dimension first, in elements."""


def tensor_map_address(atom: cute.CopyAtom) -> Int64:
    """Return the generic address of the tensor map that a TMA atom parameter carries."""
    return dsl.tensor_map_address(atom, TENSOR_MAP_ALIGN)


def prefetch_map(tensor_map: Int64) -> None:
    """Fetch a tensor map into the descriptor cache."""
    cute.arch.prefetch(generic(tensor_map, TENSOR_MAP_ALIGN).llvm_ptr, tensormap=True)


def load_box(
    tensor_map: Int64,
    coordinates: Coordinates,
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

    DSL: ``cute.copy`` with a TMA atom takes tensors whose coordinates are known to its layout
    algebra, branches, and adds ``.L2::cache_hint`` with a policy of 0 in a 64-bit register. Its
    operation for two CTAs always counts on the leader's barrier (it clears the rank bit) and passes
    the destination through two ``cvta``.
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


def store_box(tensor_map: Int64, coordinates: Coordinates, source: Int32) -> None:
    """Store one box from shared memory; elements outside the tensor are dropped. One lane.

    DSL: as for :func:`load_box`, and without an election.
    """
    rank = len(coordinates)
    box = ", ".join(f"${i + 2}" for i in range(rank))
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        f"@leader cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
        f"[$1, {{{box}}}], [$0];\n\t}}",
        (),
        (source, tensor_map, *coordinates),
    )


def finish_sources() -> None:
    """Close the calling lanes' bulk group and wait until its shared memory has been read.

    What it writes has been written by the end of the grid, which is what a later kernel waits for
    (PTX ISA, "cp.async.bulk.wait_group", "griddepcontrol").
    """
    close_stores()
    wait_for_sources()


def close_stores() -> None:
    """Close the calling lanes' bulk group."""
    cute.arch.cp_async_bulk_commit_group()


def wait_for_sources() -> None:
    """Wait until the closed bulk groups of the calling lanes have read their shared memory."""
    cute.arch.cp_async_bulk_wait_group(0, read=True)
