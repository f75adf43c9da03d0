"""Operand tiles through TMA: which boxes make up a tile, and where each one lands.

A tile is cut into column chunks of one swizzle span; chunks are outermost in shared memory, so one
box fills one chunk (``plan.memory.chunks``). Coordinates count elements of the maps planned in
``plan.spec.tensor_maps``. Both kernels load through the functions here.
"""

from dataclasses import dataclass

from cutlass import Int32, Int64

from .device.memory import tma
from .plan.memory.chunks import ColumnChunks
from .plan.spec.attention_spec import AttentionSpec


@dataclass(frozen=True)
class TensorMaps:
    """Generic addresses of the tensor maps.

    The last two serve rope columns of a type of their own; others lie in the maps of Q and K.
    """

    q: Int64
    k: Int64
    v: Int64
    o: Int64
    own_q_rope: Int64 | None = None
    own_k_rope: Int64 | None = None

    @property
    def q_rope(self) -> Int64:
        """The map with the rope columns of Q."""
        return self.q if self.own_q_rope is None else self.own_q_rope

    @property
    def k_rope(self) -> Int64:
        """The map with the rope columns of K."""
        return self.k if self.own_k_rope is None else self.own_k_rope

    @property
    def all(self) -> tuple[Int64, ...]:
        """All maps."""
        own = (self.own_q_rope, self.own_k_rope)
        return (self.q, self.k, self.v, self.o, *(m for m in own if m is not None))


def load_query_chunks(
    spec: AttentionSpec,
    tensor_map: Int64,
    where: tma.Coordinates,
    chunks: ColumnChunks,
    smem: Int32,
    mbarrier: Int32,
) -> None:
    """Load ``chunks`` of one Q tile to ``smem``, each copy of its rows behind the one before.

    ``where`` is (first position, head of the map, batch).
    """
    position, head, batch = where
    size = spec.query_rows * chunks.row_bytes
    group = spec.config.cta_group()
    for i, column in enumerate(chunks.starts):
        coordinates = (column, 0, position, head, batch)
        for copy in range(spec.row_copies):
            place = smem + (i * spec.row_copies + copy) * size
            tma.load_box(tensor_map, coordinates, place, mbarrier, group)


@dataclass(frozen=True)
class CtaSlice:
    """What one CTA loads of a key tile from K or V.

    Attributes:
        tensor_map: generic address of the map.
        chunks: the columns.
        rows: keys of the slice.
        first_row: first of them in the tile.
        first_column: column of the map at which the slice starts.
        has_one_head: whether the map has one head, which serves all.
    """

    tensor_map: Int64
    chunks: ColumnChunks
    rows: int
    first_row: Int32 | int = 0
    first_column: Int32 | int = 0
    has_one_head: bool = False


def load_key_chunks(
    spec: AttentionSpec, piece: CtaSlice, where: tma.Coordinates, smem: Int32, mbarrier: Int32
) -> None:
    """Load one box of every chunk of ``piece`` to ``smem``; ``where`` is (key, head, batch)."""
    if piece.has_one_head:
        where = (where[0], 0, where[2])
    size = piece.rows * piece.chunks.row_bytes
    group = spec.config.cta_group()
    for i, column in enumerate(piece.chunks.starts):
        coordinates = (piece.first_column + column, *where)
        tma.load_box(piece.tensor_map, coordinates, smem + i * size, mbarrier, group)


def store_query_chunk(
    tensor_map: Int64, where: tma.Coordinates, column: int, smem: Int32
) -> None:
    """Store the chunk of one 128-row O tile that starts at ``column``; TMA drops padding."""
    position, head, batch = where
    tma.store_box(tensor_map, (column, 0, position, head, batch), smem)
