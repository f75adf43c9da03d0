"""``BiasTile``: where a consumer of the Hopper kernel finds biases of 16 bits in shared memory.

A tile has the 64 rows of a consumer. Columns lie in chunks of 128 bytes a row, in granules of 16
bytes, eight columns each, which is a row of a matrix that ``ldmatrix`` loads. Granule ``g`` of row
``r`` lies where granule ``g ^ (r % 8)`` of a plain chunk would: lanes that write a row, and those
that read a granule of eight rows, meet all banks.

Its arithmetic serves integers and registers alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .hardware import WARP_THREADS, ceil_div
from .wgmma import BLOCK_COLUMNS, WGMMA_ROWS

GRANULE_BYTES: Final = 16
"""What a lane copies at once: eight columns."""
CHUNK_GRANULES: Final = 8
"""Granules of a row of a chunk."""
CHUNK_ROW_BYTES: Final = GRANULE_BYTES * CHUNK_GRANULES
CHUNK_COLUMNS: Final = CHUNK_GRANULES * BLOCK_COLUMNS
ROWS_AT_ONCE: Final = WARP_THREADS // CHUNK_GRANULES
"""Rows of a chunk that the lanes of a warp copy at once."""
MATRICES: Final = 4
"""Matrices that a warp loads at once: granules of eight rows."""
LOADED_COLUMNS: Final = MATRICES * BLOCK_COLUMNS
"""Columns of a row that it has of them."""


@dataclass(frozen=True)
class BiasTile:
    """The biases of a consumer's rows and ``columns`` keys."""

    columns: int

    @property
    def num_chunks(self) -> int:
        """Chunks of columns; of the last one some may hold nothing."""
        return ceil_div(self.columns, CHUNK_COLUMNS)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return WGMMA_ROWS * CHUNK_ROW_BYTES

    @property
    def num_bytes(self) -> int:
        """Bytes of the tile."""
        return self.num_chunks * self.chunk_bytes

    def offset(self, row: Any, granule: Any, chunk: int = 0) -> Any:
        """Return where a ``granule`` of a row of a chunk lies."""
        swapped = granule ^ (row % CHUNK_GRANULES)
        return chunk * self.chunk_bytes + row * CHUNK_ROW_BYTES + swapped * GRANULE_BYTES

    def copied(self, lane: Any) -> tuple[Any, Any]:
        """Return row, of ``ROWS_AT_ONCE``, and granule that a lane copies."""
        return lane // CHUNK_GRANULES, lane % CHUNK_GRANULES

    def named(self, lane: Any) -> tuple[Any, Any]:
        """Return row, of eight, and granule, of ``MATRICES``, that a lane names in a load."""
        return lane % CHUNK_GRANULES, lane // CHUNK_GRANULES
