"""Operand tiles through TMA: which boxes make up a tile, and where each one lands.

A tile is cut into column chunks of one swizzle span; chunks are outermost in shared memory, so one
box fills one chunk (``modular-sm100-attention.md`` section 2.2). Coordinates count elements of the
maps planned in ``fa4_cute.plan.tensor_maps``.
"""

from dataclasses import dataclass

from cutlass import Int32, Int64

from .device import tma
from .plan.depth512_spec import AttentionSpec
from .plan.tensor_maps import query_box


@dataclass(frozen=True)
class TensorMaps:
    """Generic addresses of the four tensor maps."""

    q: Int64
    k: Int64
    v: Int64
    o: Int64


def chunk_bytes(spec: AttentionSpec, box: tuple[int, ...]) -> int:
    """Return the bytes of one box."""
    size = spec.config.qkv_dtype_size
    for extent in box:
        size *= extent
    return size


def key_chunk_bytes(spec: AttentionSpec) -> int:
    """Return the bytes of one column chunk of a K or V tile."""
    return spec.key_rows * spec.config.swizzle_mode.bytes


def load_query_chunks(
    spec: AttentionSpec,
    tensor_map: Int64,
    where: tuple,
    columns: range,
    smem: Int32,
    mbarrier: Int32,
) -> None:
    """Load ``columns`` of one 128-row Q tile to ``smem``.

    ``where`` is (first position, head of the map, batch); ``columns`` is in whole chunks.
    """
    box = query_box(spec)
    position, head, batch = where
    for i, column in enumerate(columns[:: box[0]]):
        coordinates = (column, 0, position, head, batch)
        tma.load_box(tensor_map, coordinates, smem + i * chunk_bytes(spec, box), mbarrier)


def load_key_chunks(
    spec: AttentionSpec,
    tensor_map: Int64,
    where: tuple,
    columns: range,
    smem: Int32,
    mbarrier: Int32,
) -> None:
    """Load ``columns`` of one box of a K or V tile to ``smem``; ``where`` is (key, head, batch)."""
    for i, column in enumerate(columns[:: spec.config.swizzle_elems]):
        offset = i * key_chunk_bytes(spec)
        tma.load_box(tensor_map, (column, *where), smem + offset, mbarrier)


def store_query_chunk(
    spec: AttentionSpec, tensor_map: Int64, where: tuple, column: int, smem: Int32
) -> None:
    """Store the chunk of one 128-row O tile that starts at ``column``; TMA drops padding."""
    position, head, batch = where
    tma.store_box(tensor_map, (column, 0, position, head, batch), smem)
