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
error of a tenth: P V of a tile is a sum of its own, added to O in float32. Of a wider V it is
multiplied in blocks of columns, each in the registers of the one before; and where O is so wide
that S does not fit beside such a block, S follows the last one in the same registers. So it does
where that leaves three consumers their registers, of which two others hide what one waits for::

    columns of V   consumers   keys   registers of S, O, P, P V
    .. 64          3           96     48, 32, 12, 32 of 160           CTAs of one query tile
    .. 64          3           128    64 (S or P V), 32, 16 of 160    persistent ones
    .. 64          3           192    96 (S or P V), 32, 24 of 160    many keys
    .. 96          3           128    64 (S or P V), 48, 16 of 160    the same
    .. 128         3           128    64 (S or P V), 64, 16 of 160    the same
    .. 64          2           128    64, 32, 16, 32 of 240
    .. 128         2           128    64, 64, 16, 64 of 240
    .. 192         2           128    64, 96, 16, 32 of 240
    .. 256         2           128    64 (S or P V), 128, 16 of 240

Two up to 64 columns only where features need the registers. Times: ``docs/hopper.md``, "fp8
prompts".
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode, align_up


class Turns(Enum):
    """CTAs whose consumers start their products in turn.

    Measured on an H200 (``docs/hopper.md``): from 8,192 keys on, CTAs of one query tile gain 1 to
    2 % of their cycles without turns at head dims 96 and 128, and at 192/128 any do, up to 4 %;
    elsewhere turns gain up to 9 %.
    """

    ALWAYS = "all"
    PERSISTENT = "persistent ones"
    NEVER = "none"


class SM90Tile(NamedTuple):
    """Tile of head dims up to ``depth``, of V up to ``ov_depth``: consumers of 64 rows, and keys.

    ``ov_depth`` is 0 where any will do; ``ctas`` share an SM. At most ``columns`` of V are
    multiplied together, all if that is 0. With ``scores_ahead`` S of a tile is multiplied while
    P V of the tile before is. ``turns``: in which CTAs consumers start their products in turn.
    """

    depth: int
    consumers: int
    keys: int
    ov_depth: int = 0
    ctas: int = 1
    columns: int = 0
    scores_ahead: bool = True
    turns: Turns = Turns.ALWAYS

    def holds(self, depth: int, ov_depth: int) -> bool:
        """Whether the tile is wide enough."""
        return depth <= self.depth and ov_depth <= (self.ov_depth or self.depth)

    def narrowed(self, columns: int) -> SM90Tile:
        """Return the tile with at most so many columns multiplied together, and S after them.

        With 0 it stays as it is.
        """
        if not columns:
            return self
        return self._replace(columns=min(columns, self.columns or columns), scores_ahead=False)


TILES: Final = (SM90Tile(64, 3, 128), SM90Tile(96, 3, 112, turns=Turns.PERSISTENT),
                SM90Tile(128, 2, 128), SM90Tile(192, 2, 128, ov_depth=128, turns=Turns.NEVER),
                SM90Tile(192, 2, 112), SM90Tile(256, 2, 80))  # fmt: skip
"""Ascending; the first that is wide enough is taken."""
FP8_TILES: Final = (SM90Tile(64, 2, 128), SM90Tile(256, 2, 128, ov_depth=128),
                    SM90Tile(256, 2, 128, ov_depth=192, columns=64),
                    SM90Tile(256, 2, 128, columns=128, scores_ahead=False))  # fmt: skip
"""Those of fp8 operands."""
FP8_TILE_OF_THREE: Final = SM90Tile(64, 3, 96)
"""Comes before them where three consumers have the registers."""
FP8_TILE_IN_TURN: Final = SM90Tile(64, 3, 128, scores_ahead=False)
"""The same of persistent CTAs."""
FEWEST_CONSUMERS: Final = 2
MOST_CONSUMERS: Final = 3
"""Consumers of a tile of several Q tiles."""
MAX_KV_STAGES: Final = 4
"""More slots of K and V than this hide no more latency."""
MIN_KV_STAGES: Final = 2
"""With fewer, nothing is loaded while the tensor cores read."""
MAX_DEPTH: Final = TILES[-1].depth
FEW_ROWS_TILES: Final = (SM90Tile(64, 1, 128, ctas=2), SM90Tile(128, 1, 64, ctas=2),
                         SM90Tile(192, 1, 32, ctas=2), SM90Tile(256, 1, 64))  # fmt: skip
"""The same for queries that fit 64 rows. The last one's O alone takes the registers that a thread
of two CTAs starts with, and ptxas wants an instruction's operands among these."""
FP8_FEW_ROWS_TILES: Final = (*FEW_ROWS_TILES[:2],
                             SM90Tile(192, 1, 32, ov_depth=128, ctas=2),
                             SM90Tile(192, 1, 32, ctas=2, columns=64),
                             SM90Tile(256, 1, 64, ov_depth=128),
                             SM90Tile(256, 1, 64, columns=64))  # fmt: skip
"""The same of fp8 operands."""
FP8_KEY_UNIT: Final = 32
"""Keys of an fp8 tile come in multiples of what one wgmma multiplies."""
LONG_KEYS_TILE: Final = SM90Tile(128, 3, 80, turns=Turns.PERSISTENT)
"""For this head dim alone, and many keys: three consumers hide more of each other's softmax, and
what they lose at the ends of a query tile no longer counts."""
FP8_LONG_KEYS_TILES: Final = (SM90Tile(64, 3, 192, scores_ahead=False),
                              SM90Tile(96, 3, 128, scores_ahead=False),
                              SM90Tile(128, 3, 128, scores_ahead=False),
                              SM90Tile(192, 3, 128, ov_depth=128, scores_ahead=False))  # fmt: skip
"""The same of fp8 operands, ascending."""

PERSISTENT_MASKED: Final = SM90Tile(96, 3, 96)
"""For this tile of the table alone, persistent CTAs and a mask: two of its key tiles end where a
causal query tile does, and whatever a mask needs besides finds registers."""


def tiles_of(
    *, is_fp8: bool, few_rows: bool, has_three: bool, is_persistent: bool = False
) -> tuple[SM90Tile, ...]:
    """Return the tiles of a kernel, ascending; of fp8 operands, some may have three consumers."""
    if not is_fp8:
        return FEW_ROWS_TILES if few_rows else TILES
    if few_rows:
        return FP8_FEW_ROWS_TILES
    three = FP8_TILE_IN_TURN if is_persistent else FP8_TILE_OF_THREE
    return (three, *FP8_TILES) if has_three else FP8_TILES


def long_keys_tile(depth: int, ov_depth: int, *, is_fp8: bool) -> SM90Tile | None:
    """Return the tile for many keys of such head dims, or None where there is none."""
    if not is_fp8:
        return LONG_KEYS_TILE if depth == ov_depth == LONG_KEYS_TILE.depth else None
    return next((tile for tile in FP8_LONG_KEYS_TILES if tile.holds(depth, ov_depth)), None)


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


def refuse_fp8_keys(keys: int) -> None:
    """Refuse keys that no tile of fp8 operands has.

    Raises:
        ValueError: naming them.
    """
    if keys % FP8_KEY_UNIT:
        raise ValueError(
            f"BN={keys}: tiles of fp8 operands have multiples of {FP8_KEY_UNIT} keys; nearest "
            f"supported choice: keys={align_up(keys, FP8_KEY_UNIT)}"
        )
