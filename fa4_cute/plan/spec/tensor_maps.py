"""Tensor maps of Q, K, V and O: pure descriptions that a driver or our own encoder turns to bits.

Every operand is (batch, seqlen, heads, head_dim) with contiguous rows. The sequence is a dimension
of its own, below heads and batch, so the rows of a last tile that lie past the sequence are filled
with zeros (loads) or dropped (stores): they never touch the next head or batch entry. The padding
of the head dimension works the same way.

Q and O have a rank-5 map. When the heads of a group are packed into the rows of a tile, dimension 1
is the group, so tile row ``r`` is position ``r // group`` of head ``r % group``::

    dimension   0             1          2            3                      4
    Q, O        head_dim      group | 1  seqlen_q     kv heads | q heads     batch
    K, V        head_dim      seqlen_k   kv heads     batch

A box is one swizzle-wide column chunk of a tile. The maps of fp8 operands move plain bytes (filled
with 0, which is 0.0), and O has an element type and a chunk width of its own there.

Source: ``docs/sources.md`` section 6; limits: ``cuTensorMapEncodeTiled`` (CUDA driver
API).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from ..facts.dtypes import DType
from ..facts.hardware import SwizzleMode, divide_cache_lines
from ..facts.tensor_map_bits import ALIGN, TensorMapFields
from .attention_spec import AttentionSpec
from .kernel_spec import KernelSpec

_ELEMENT_TYPES: Final = {DType.BF16: "BFLOAT16", DType.FP16: "FLOAT16", DType.FP8_E4M3: "UINT8"}
_SWIZZLES: Final = {
    SwizzleMode.NONE: 0,
    SwizzleMode.B32: 1,
    SwizzleMode.B64: 2,
    SwizzleMode.B128: 3,
}
L2_PROMOTION_NONE: Final = 0
L2_PROMOTION_128B: Final = 2
ROPE_OPERANDS: Final = ("q_rope", "k_rope")
"""Rope columns whose type is not that of the others, as tensors of their own."""


@dataclass(frozen=True)
class OperandLayout:
    """Shape (batch, seqlen, heads, head_dim) of an operand and its strides in elements."""

    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]

    @classmethod
    def contiguous(cls, shape: tuple[int, int, int, int]) -> OperandLayout:
        """Return the densely packed layout of ``shape``."""
        _, seqlen, heads, head_dim = shape
        row = heads * head_dim
        return cls(shape, (seqlen * row, row, head_dim, 1))


@dataclass(frozen=True)
class TensorMapSpec:
    """Arguments of one encoding; the address of operand ``address_of`` is known at launch."""

    address_of: str
    dtype: DType
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: SwizzleMode

    @property
    def rank(self) -> int:
        """Dimensions of the map."""
        return len(self.dims)

    @property
    def l2_promotion(self) -> int:
        """What the L2 fetches for a part of a cache line: all of it, where rows divide such lines
        or follow one another without a gap.

        Elsewhere it begins or ends within another head's row, and has left the L2 before that is
        asked for (measured: ``docs/hopper.md``, "Rows that are parts of lines").
        """
        row = self.dims[0] * self.dtype.size
        whole = divide_cache_lines((row,)) or self.strides_bytes[0] == row
        return L2_PROMOTION_128B if whole else L2_PROMOTION_NONE

    def fields(self, address: int) -> TensorMapFields:
        """Return the encoder's arguments for an operand at ``address``."""
        return TensorMapFields(
            element_type=_ELEMENT_TYPES[self.dtype],
            address=address,
            dims=self.dims,
            strides=self.strides_bytes,
            box=self.box,
            swizzle=_SWIZZLES[self.swizzle],
            l2_promotion=self.l2_promotion,
        )


def query_box(spec: AttentionSpec) -> tuple[int, ...]:
    """Return the box of Q: one column chunk of all rows of one Q tile."""
    return (spec.config.swizzle_elems, spec.rows_per_position, spec.tile_positions, 1, 1)


def key_box(spec: AttentionSpec, num_rows: int = 0) -> tuple[int, ...]:
    """Return the box of K and V: one column chunk of a slot's keys, or of those of one page.

    ``num_rows`` is the keys of the slot, 0 for those of a slot of V.
    """
    num_rows = num_rows or spec.key_rows
    # Half of a tile of 192 keys is no multiple of a page of 64, and starts in the middle of one.
    rows = gcd(num_rows, spec.variant.page_size)
    return (spec.config.swizzle_elems, rows, 1, 1)


def elements(spec: AttentionSpec, name: str) -> tuple[DType, SwizzleMode]:
    """Return element type and swizzle of operand ``name``."""
    if name == "o":
        return spec.output_dtype, spec.output_swizzle
    if name in ROPE_OPERANDS and isinstance(spec, KernelSpec):
        return spec.config.rope_dtype, spec.config.rope_swizzle
    config = spec.config
    return config.qkv_dtype, config.value_swizzle if name == "v" else config.swizzle_mode


def query_map(spec: AttentionSpec, name: str, layout: OperandLayout) -> TensorMapSpec:
    """Return the map of Q or O (``name`` is ``q``, ``o`` or ``q_rope``).

    Raises:
        ValueError: when the last dimension is not contiguous, or a stride that is needed is not a
            positive multiple of 16 bytes.
    """
    batch, seqlen, heads, head_dim = layout.shape
    by_batch, by_row, by_head, _ = layout.strides
    fused = spec.rows_per_position
    dims = (head_dim, fused, seqlen, heads // fused, batch)
    strides = (by_head, by_row, by_head * fused, by_batch)
    return _map(spec, name, layout, dims=dims, strides=strides, box=query_box(spec))


def key_map(spec: AttentionSpec, name: str, layout: OperandLayout) -> TensorMapSpec:
    """Return the map of K, V or ``k_rope``; errors as ``query_map``."""
    batch, seqlen, heads, head_dim = layout.shape
    by_batch, by_row, by_head, _ = layout.strides
    dims = (head_dim, seqlen, heads, batch)
    strides = (by_row, by_head, by_batch)
    rows = spec.key_rows if name == "v" else spec.k_rows
    return _map(spec, name, layout, dims=dims, strides=strides, box=key_box(spec, rows))


def tensor_maps(
    spec: AttentionSpec,
    q: OperandLayout,
    k: OperandLayout,
    v: OperandLayout,
    o: OperandLayout,
    *rope: OperandLayout,
) -> tuple[TensorMapSpec, ...]:
    """Return the maps in parameter order: q, k, v, o, and q_rope, k_rope if given.

    Errors as ``query_map``.
    """
    maps = (
        query_map(spec, "q", q),
        key_map(spec, "k", k),
        key_map(spec, "v", v),
        query_map(spec, "o", o),
    )
    if not rope:
        return maps
    q_rope, k_rope = rope
    return (*maps, query_map(spec, "q_rope", q_rope), key_map(spec, "k_rope", k_rope))


def _map(
    spec: AttentionSpec,
    name: str,
    layout: OperandLayout,
    *,
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
) -> TensorMapSpec:
    dtype, swizzle = elements(spec, name)
    box = (swizzle.bytes // dtype.size, *box[1:])
    if layout.strides[3] != 1:
        raise ValueError(
            f"{name}: stride of the head dimension is {layout.strides[3]}; it must be contiguous"
        )
    strides_bytes = []
    is_empty = 0 in dims
    for dim, stride in zip(dims[1:], strides, strict=True):
        # A stride that no element needs is arbitrary in the operand, but a driver checks it.
        size = ALIGN if is_empty or dim == 1 else stride * dtype.size
        if size % ALIGN or size <= 0:
            raise ValueError(
                f"{name}: strides {layout.strides} (in elements of {dtype.size} bytes) must be "
                f"positive multiples of {ALIGN} bytes; call .contiguous()"
            )
        strides_bytes.append(size)
    # An empty operand is never read, but a map has no empty dimension.
    dims = tuple(max(1, dim) for dim in dims)
    return TensorMapSpec(name, dtype, dims, tuple(strides_bytes), box, swizzle)
