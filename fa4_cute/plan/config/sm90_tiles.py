"""Tiles of the Hopper kernel, by head dim: consumers, keys, and why.

What bounds a tile is a consumer's registers, O and two of S and P at a time, and shared memory for
two slots of K and V::

    head dim   consumers   keys   registers of S, O, P    as in
    .. 64      3           128    64, 32, 32 of 160
    .. 96      3           112    56, 48, 28 of 160
    .. 128     2           128    64, 64, 32 of 240       FlashAttention-3's causal tile
    192/128    2           128    64, 64, 32 of 240       FlashAttention-3
    .. 192     2           112    56, 96, 28 of 240       FlashAttention-3
    .. 256     2           80     40, 128, 20 of 240      FlashAttention-3

Where the queries of a head fit 64 rows, as those of a decoding step do, memory is what bounds a
call. Then one consumer suffices, its tiles are small, and up to head dim 192 two CTAs share an SM:
one loads while the other starts or ends.

fp8 operands: wgmma takes fp8 with K along rows only (PTX ISA, "Strides" of wgmma), so that V is
transposed in shared memory, from the slots that TMA fills to those that are multiplied. It adds
products of fp8 with 13 fraction bits (``docs/hardware.md``), which over thousands of keys is an
error of a tenth: P V of a tile is a sum of its own, added to O in float32. So V has at most 128
columns: the assembler finds no registers for a wider sum beside O and S::

    head dim   consumers   keys   registers of S, O, P, P V
    .. 64      3           96     48, 32, 12, 32 of 160
    .. 128     2           128    64, 64, 16, 64 of 240

Where there are two consumers all the same, or persistent CTAs, which serve short sequences, head
dim 64 has the second one, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode, align_up


class SM90Tile(NamedTuple):
    """Tile of head dims up to ``depth``, of V up to ``ov_depth``: consumers of 64 rows, and keys.

    ``ov_depth`` is 0 where any will do; ``ctas`` share an SM.
    """

    depth: int
    consumers: int
    keys: int
    ov_depth: int = 0
    ctas: int = 1

    def holds(self, depth: int, ov_depth: int) -> bool:
        """Whether the tile is wide enough."""
        return depth <= self.depth and ov_depth <= (self.ov_depth or self.depth)


TILES: Final = (SM90Tile(64, 3, 128), SM90Tile(96, 3, 112), SM90Tile(128, 2, 128),
                SM90Tile(192, 2, 128, ov_depth=128), SM90Tile(192, 2, 112),
                SM90Tile(256, 2, 80))  # fmt: skip
"""Ascending; the first that is wide enough is taken."""
WIDEST_FP8: Final = 128
"""Most columns of an fp8 V: P V of a tile has registers beside those of O and of the next S."""
FP8_TILES: Final = (SM90Tile(64, 3, 96), SM90Tile(256, 2, 128))
"""Those of fp8 operands, for a V that is no wider."""
FP8_TILES_OF_TWO: Final = FP8_TILES[1:]
MAX_DEPTH: Final = TILES[-1].depth
FEW_ROWS_TILES: Final = (SM90Tile(64, 1, 128, ctas=2), SM90Tile(128, 1, 64, ctas=2),
                         SM90Tile(192, 1, 32, ctas=2), SM90Tile(256, 1, 64))  # fmt: skip
"""The same for queries that fit 64 rows. The last one's O alone takes the registers that a thread
of two CTAs starts with, and ptxas wants an instruction's operands among these."""
FP8_KEY_UNIT: Final = 32
"""Keys of an fp8 tile come in multiples of what one wgmma multiplies."""
LONG_KEYS_TILE: Final = SM90Tile(128, 3, 80)
"""For this head dim alone, and many keys: three consumers hide more of each other's softmax, and
what they lose at the ends of a query tile no longer counts."""


def tiles_of(*, is_fp8: bool, few_rows: bool, has_three: bool) -> tuple[SM90Tile, ...]:
    """Return the tiles of a kernel, ascending; of fp8 operands, some have three consumers."""
    of_fp8 = FP8_TILES if has_three else FP8_TILES_OF_TWO
    of_type = of_fp8 if is_fp8 else TILES
    return FEW_ROWS_TILES if few_rows else of_type


def operand_swizzle(dtype: DType, depth: int) -> SwizzleMode:
    """Return the dtype's own swizzle, or the widest if that pads a head dim no more."""
    own, widest = dtype.default_swizzle, SwizzleMode.B128
    row = depth * dtype.size
    return widest if align_up(row, widest.bytes) == align_up(row, own.bytes) else own


def refuse_depths(depth: int, ov_depth: int) -> None:
    """Refuse head dims of no tile.

    Raises:
        ValueError: that of Q and K is too large, or that of V is larger.
    """
    if depth > MAX_DEPTH:
        raise ValueError(
            f"depth={depth}: the registers of a warp group hold no wider O; nearest supported "
            f"choice: depth={MAX_DEPTH}"
        )
    if ov_depth > depth:
        raise ValueError(
            f"ov_depth={ov_depth} exceeds depth={depth}, that of Q and K; nearest supported "
            f"choice: ov_depth={depth}"
        )


def refuse_fp8_tile(ov_depth: int, keys: int) -> None:
    """Refuse what no tile of fp8 operands has.

    Raises:
        ValueError: naming V's head dim, or the keys.
    """
    if ov_depth > WIDEST_FP8:
        raise ValueError(
            f"ov_depth={ov_depth}: the registers of a warp group hold no wider product of fp8 "
            f"operands beside O; nearest supported choice: ov_depth={WIDEST_FP8}, or bf16"
        )
    if keys % FP8_KEY_UNIT:
        raise ValueError(
            f"BN={keys}: tiles of fp8 operands have multiples of {FP8_KEY_UNIT} keys; nearest "
            f"supported choice: keys={align_up(keys, FP8_KEY_UNIT)}"
        )
