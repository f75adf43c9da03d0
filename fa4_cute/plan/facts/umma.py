"""``tcgen05.mma`` operands as bits: matrix descriptors, instruction descriptors, k-steps.

Shared-memory matrix descriptor (PTX ISA, "Matrix descriptor format"; docs/sources.md 13)::

    bits  0-13  start address >> 4          bits 32-45  stride byte offset  (SBO) >> 4
    bits 16-29  leading byte offset (LBO)   bit  46     1
                >> 4                        bits 61-63  swizzle: none 0, 128B 2, 64B 4, 32B 6

Instruction descriptor of kinds f16 and f8f6f4 (``docs/sources.md`` section 13)::

    bits 4-5 D format (F32 = 1)   bits 7-9 A format   bits 10-12 B format
    bit 15/16 A/B is MN-major     bits 17-22 N >> 3   bits 24-28 M >> 4 (M of the pair)

Tiles (``docs/sources.md`` section 2). ``g`` is the elements of one swizzle span:

* K-major tile (Q, K, P): element (row, c) at ``(c // g) * rows * g + row * g + c % g``;
* MN-major tile (V): element (key, d) at ``(d // g) * keys * g + key * g + d % g``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .dtypes import DType
from .hardware import TMEM_COLUMN_BYTES, TMEM_LANES, SwizzleMode, align_up, ceil_div

GRANULE_SHIFT = 4
"""Descriptors count bytes in granules of 16."""
SMEM_ADDRESS_BITS = 18
"""Bits of a shared-memory address that a matrix descriptor holds (PTX ISA, "Shared memory
descriptor", matrix-descriptor-encode)."""
WORD_BITS = 32
ALL_LANES = (1 << WORD_BITS) - 1
"""A word of lanes of which an MMA writes none."""
_ROWS_PER_ATOM = 8
_IGNORED_LBO = 16
"""Swizzled K-major operands ignore LBO; one granule is the customary value."""


def smem_descriptor_bits(
    start: int, lbo: int, sbo: int, swizzle: SwizzleMode, base_offset: int = 0
) -> int:
    """Return the 64-bit matrix descriptor; ``start``, ``lbo`` and ``sbo`` are bytes.

    Raises:
        ValueError: when a byte count is not a multiple of 16 or does not fit 18 bits.
    """
    for name, value in (("start", start), ("lbo", lbo), ("sbo", sbo)):
        limit = 1 << SMEM_ADDRESS_BITS
        if value % 16 or not 0 <= value < limit:
            raise ValueError(f"{name}={value}: must be a multiple of 16 below {limit}")
    bits = start >> GRANULE_SHIFT
    bits |= lbo >> GRANULE_SHIFT << 16
    bits |= sbo >> GRANULE_SHIFT << 32
    bits |= 1 << 46
    bits |= base_offset << 49
    return bits | swizzle.descriptor_code << 61


def instruction_descriptor(
    dtype: DType, m: int, n: int, *, a_mn_major: bool = False, b_mn_major: bool = False
) -> int:
    """Return the 32-bit descriptor of a dense MMA with equal A and B types and an f32 D.

    Raises:
        ValueError: for a shape the field encoding cannot hold.
    """
    if m not in (64, 128, 256):
        raise ValueError(f"m={m}: an MMA has 64, 128 or 256 rows")
    if n % 8 or not 8 <= n <= 256:
        raise ValueError(f"n={n}: an MMA has 8 to 256 columns in steps of 8")
    code = dtype.mma_format
    bits = 1 << 4
    bits |= code << 7 | code << 10
    bits |= int(a_mn_major) << 15 | int(b_mn_major) << 16
    return bits | n >> 3 << 17 | m >> 4 << 24


@dataclass(frozen=True)
class SmemOperand:
    """One operand tile in shared memory: ``mn`` rows (M or N per CTA) x ``k`` of the K axis.

    ``padded_k`` is the tile's extent along K in memory; ``k`` is what is multiplied.
    """

    dtype: DType
    mn: int
    padded_k: int
    swizzle: SwizzleMode
    mn_major: bool = False

    @property
    def span(self) -> int:
        """Elements of one swizzle span (column chunk)."""
        return self.swizzle.bytes // self.dtype.size

    @property
    def bytes(self) -> int:
        """Bytes of the tile."""
        return self.mn * self.padded_k * self.dtype.size

    @property
    def sbo(self) -> int:
        """Distance of two groups of eight rows (K-major) or of eight keys (MN-major)."""
        return _ROWS_PER_ATOM * self.swizzle.bytes

    @property
    def lbo(self) -> int:
        """Distance of two column chunks of an MN-major tile; ignored for K-major ones."""
        return self.padded_k * self.swizzle.bytes if self.mn_major else _IGNORED_LBO

    def descriptor(self, start: int) -> int:
        """Return the descriptor of the tile at shared address ``start``."""
        return smem_descriptor_bits(start, self.lbo, self.sbo, self.swizzle)

    def k_offset(self, k_block: int) -> int:
        """Return the byte advance of the ``k_block``-th MMA along K."""
        k = k_block * self.dtype.mma_k
        if self.mn_major:
            return k * self.swizzle.bytes
        chunk, within = divmod(k, self.span)
        return (chunk * self.mn * self.span + within) * self.dtype.size


@dataclass(frozen=True)
class MmaPlan:
    """One accumulation D (M x N) += A B: how many MMAs, in which stages, at which offsets.

    Args:
        dtype: type of A and B.
        m: rows of D over all CTAs that share the MMA.
        n: columns of D.
        k: extent multiplied, rounded up to whole MMAs.
        num_stages: stages in which operands become ready.
        b: B in shared memory.
        a: A in shared memory, or None when A is in Tensor Memory (one row per lane, K packed).
        quarters: quarters of the blocks that precede the end of each stage, where the blocks divide
            by four; without them stages are equal.
        cta_group: CTAs that share the MMA.
        row_copies: copies of the rows of D in the lanes of a CTA, of which each takes K blocks of
            its own.
        copies_taken: those whose K blocks these are; None stands for all.
    """

    dtype: DType
    m: int
    n: int
    k: int
    num_stages: int
    b: SmemOperand
    a: SmemOperand | None = None
    quarters: tuple[int, ...] = ()
    cta_group: int = 1
    row_copies: int = 1
    copies_taken: range | None = None

    @property
    def smem_a(self) -> SmemOperand:
        """A in shared memory.

        Raises:
            ValueError: A comes from Tensor Memory.
        """
        if self.a is None:
            raise ValueError("a=None: this operand comes from Tensor Memory")
        return self.a

    @property
    def a_in_tmem(self) -> bool:
        """Whether A comes from Tensor Memory."""
        return self.a is None

    @property
    def num_k_mmas(self) -> int:
        """MMAs of the whole accumulation."""
        return ceil_div(self.k, self.dtype.mma_k)

    @property
    def padded_k_blocks(self) -> int:
        """K blocks the tile has room for, padding included."""
        return self.b.padded_k // self.dtype.mma_k

    @property
    def is_in_quarters(self) -> bool:
        """Whether stages end with quarters of the blocks."""
        return bool(self.quarters) and self.num_k_mmas % 4 == 0

    def k_blocks(self, stage: int) -> range:
        """Return the K blocks of ``stage``: padding columns are never multiplied.

        Raises:
            ValueError: when there is no such stage.
        """
        if not 0 <= stage < self.num_stages:
            raise ValueError(f"stage={stage}: the plan has {self.num_stages} stage(s)")
        if self.is_in_quarters:
            ends = [self.num_k_mmas * end // 4 for end in (0, *self.quarters)]
            return range(ends[stage], ends[stage + 1])
        per_stage = self.padded_k_blocks // self.num_stages
        start = stage * per_stage
        return range(start, min(start + per_stage, self.num_k_mmas))

    def copy_of(self, k_block: int) -> int:
        """Return which copy of the rows takes the ``k_block``-th K block."""
        taken = self.copies_taken or range(self.row_copies)
        return taken[k_block * len(taken) // self.num_k_mmas]

    def is_first_of_copy(self, k_block: int) -> bool:
        """Whether the K block is the first that its copy of the rows takes."""
        return k_block == 0 or self.copy_of(k_block) != self.copy_of(k_block - 1)

    def disabled_lanes(self, k_block: int) -> tuple[int, ...]:
        """Return the lanes of D that an MMA leaves as they are, 32 a word, the lowest first.

        Of a pair the words of the second CTA follow. It is empty where the MMA writes all lanes
        (PTX ISA, "tcgen05.mma", disable-output-lane).
        """
        if self.row_copies == 1:
            return ()
        words = TMEM_LANES // WORD_BITS
        own = self.copy_of(k_block)
        of_cta = [
            0 if word * self.row_copies // words == own else ALL_LANES for word in range(words)
        ]
        return tuple(of_cta * self.cta_group)

    @property
    def idesc(self) -> int:
        """The instruction descriptor."""
        a_mn_major = self.a is not None and self.a.mn_major
        return instruction_descriptor(
            self.dtype, self.m, self.n, a_mn_major=a_mn_major, b_mn_major=self.b.mn_major
        )

    @property
    def kind(self) -> str:
        """The MMA kind: f16 or f8f6f4."""
        return self.dtype.mma_kind

    @property
    def a_columns_per_mma(self) -> int:
        """TMEM columns of A that one MMA reads."""
        return self.dtype.mma_k * self.dtype.size // TMEM_COLUMN_BYTES

    def a_offset(self, k_block: int) -> int:
        """Return the advance of A: bytes in shared memory, columns in Tensor Memory."""
        if self.a is None:
            return k_block * self.a_columns_per_mma
        return self.a.k_offset(k_block)

    def b_offset(self, k_block: int) -> int:
        """Return the byte advance of B."""
        return self.b.k_offset(k_block)


def ss_plan(  # both operands in shared memory
    a: SmemOperand, b: SmemOperand, *, k: int, num_stages: int = 1, cta_group: int = 1
) -> MmaPlan:
    """Return the plan of A B with both tiles in shared memory; ``mn`` of each is per CTA."""
    return MmaPlan(
        dtype=a.dtype,
        m=a.mn * cta_group,
        n=b.mn * cta_group,
        k=align_up(k, a.dtype.mma_k),
        num_stages=num_stages,
        b=b,
        a=a,
        cta_group=cta_group,
    )


def ts_plan(
    b: SmemOperand,
    *,
    m: int,
    k: int,
    num_stages: int = 2,
    quarters: tuple[int, ...] = (3, 4),
    cta_group: int = 1,
    row_copies: int = 1,
    copies_taken: range | None = None,
) -> MmaPlan:
    """Return the plan of P V with P in Tensor Memory, in quarters where the key blocks allow."""
    return MmaPlan(
        dtype=b.dtype,
        m=m,
        n=b.mn * cta_group,
        k=k,
        num_stages=num_stages,
        b=b,
        quarters=quarters,
        cta_group=cta_group,
        row_copies=row_copies,
        copies_taken=copies_taken,
    )
