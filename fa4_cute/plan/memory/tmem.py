"""Tensor Memory as named column ranges (512 columns x 128 lanes of 32 bits).

2Q and 1Q kernel::

    0          BN         2*BN       2*BN+ov    2*BN+2*ov <= 512
    | S0       | S1       | O0       | O1       |
    | P0 |     | P1 |       P_i borrows the low BN*size/4 columns of its own S_i
    |LSE|      |LSE|        1Q: (row max, row sum) exchanged at the end in columns 0, 1 of S_i,
                            or in shared memory where the next S may come before

Head dim 256, with P of a key tile in the low columns of its S, and 512, with P in shared memory::

    d256: | O 0-255           | S_even 256-383 | S_odd 384-511 |
    d512: | O_lo 0-127 | O_hi 128-255 | S_even 256-383 | S_odd 384-511 |

P may overwrite S_i because the same thread wrote P after it had all of its S row in registers, and
the MMA that overwrites S_i again is issued after the one that reads P_i. Where P crosses, P_i
borrows the columns of the other chain's S, whose threads say when they have it in registers. The
last P0 of chains that end apart borrows the high columns of S0, beside P1; where query tiles run on
the last P of each chain those of its own S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..facts.hardware import TMEM_COLUMN_BYTES, TMEM_COLUMNS
from ..facts.regions import Region, RegionTable, render_regions

if TYPE_CHECKING:
    from ..config.config import FA4Config
    from ..config.depth512_config import Depth512Config

LSE_COLUMNS = 2


@dataclass(frozen=True)
class TmemMap:
    """Named, disjoint column ranges.

    Raises:
        ValueError: naming the regions when two overlap or one leaves the 512 columns.
    """

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        """Refuse a map that does not fit."""
        for i, region in enumerate(self.regions):
            if region.start < 0 or region.end > TMEM_COLUMNS:
                raise ValueError(
                    f"region {region.name} ends at column {region.end} of {TMEM_COLUMNS}\n"
                    + self.render()
                )
            for other in self.regions[:i]:
                if region.overlaps(other):
                    raise ValueError(
                        f"regions {other.name} and {region.name} overlap\n" + self.render()
                    )

    @property
    def used(self) -> int:
        """Columns up to the end of the last region."""
        return max(region.end for region in self.regions)

    @property
    def alloc_columns(self) -> int:
        """Columns to allocate: all of them; one CTA owns the SM."""
        return TMEM_COLUMNS

    def __getitem__(self, name: str) -> Region:
        """Return the region called ``name``; ``KeyError`` names the known ones."""
        return RegionTable(self.regions)[name]

    def render(self) -> str:
        """Return the map as text, one region a line."""
        return render_regions(self.regions, unit="columns")


@dataclass(frozen=True)
class AttentionTmem(TmemMap):
    """Map of the 2Q/1Q kernel: ``S0 S1 O0 O1`` and the loans on S."""

    p_columns: int = 0
    crosses: bool = False

    @classmethod
    def of(cls, config: FA4Config) -> AttentionTmem:
        """Return the map of a configuration."""
        ov = config.padded_ov_depth
        return cls(
            (
                Region("S0", config.TMEM_S0, config.BN),
                Region("S1", config.TMEM_S1, config.BN),
                Region("O0", config.TMEM_O0, ov),
                Region("O1", config.TMEM_O1, ov),
            ),
            p_columns=config.BN * config.qkv_dtype_size // TMEM_COLUMN_BYTES,
            crosses=config.crosses,
        )

    def s(self, chain: int) -> Region:
        """Scores of chain 0 or 1, one float per column."""
        return self[f"S{chain}"]

    def o(self, chain: int) -> Region:
        """Output accumulator of chain 0 or 1."""
        return self[f"O{chain}"]

    def borrow_s_as_p(self, chain: int) -> Region:
        """P of a chain: the low columns of its own S, two (16-bit) or four (fp8) keys a column.

        Or of the other chain's, so that the next S need not wait for P V.
        """
        lender = self.s(1 - chain if self.crosses else chain)
        return Region(f"P{chain}", lender.start, self.p_columns)

    def last_p(self, chain: int) -> Region:
        """The last P of a chain that keeps it: the high columns of its own S.

        The other chain's P lies in the low ones. So where the chains end apart the last S of chain
        1 need not wait for that of chain 0, and where query tiles run on neither chain waits for
        the first S of the next one.
        """
        own = self.s(chain)
        return Region(f"P{chain} (last)", own.end - self.p_columns, self.p_columns)

    def borrow_s_for_lse(self, chain: int) -> Region:
        """1Q: row max and row sum of a chain, once its S is dead."""
        return Region(f"LSE{chain}", self.s(chain).start, LSE_COLUMNS)


@dataclass(frozen=True)
class Depth512Tmem(TmemMap):
    """Map of the head-dim 256/512 kernel: O (or its two o blocks), S_even, S_odd."""

    split_o: bool = True

    @classmethod
    def of(cls, config: Depth512Config) -> Depth512Tmem:
        """Return the map of a configuration."""
        o_names = ("O_lo", "O_hi") if config.split_o else ("O_lo",)
        outputs = tuple(
            Region(name, i * config.o_columns, config.o_columns) for i, name in enumerate(o_names)
        )
        scores = (
            Region("S_even", config.TMEM_S_even, config.s_columns),
            Region("S_odd", config.TMEM_S_odd, config.s_columns),
        )
        return cls(outputs + scores, split_o=config.split_o)

    def s(self, tile: int) -> Region:
        """Scores of key tile ``tile``: buffers alternate."""
        return self["S_odd" if tile % 2 else "S_even"]

    def o_lo(self) -> Region:
        """The output, or its low o block."""
        return self["O_lo"]
