"""Where the sequence of a CTA lies: lengths and offsets, from scalars or from the call's arrays."""

from dataclasses import dataclass

from cutlass import Float32, Int32, Int64

from ..device.memory import gmem
from ..plan.spec.attention_spec import AttentionSpec
from ..plan.spec.extras import Extras


@dataclass(frozen=True)
class Arguments:
    """Run-time arguments of the call.

    ``lse`` is the address of the log-sum-exp: (batch, heads, seqlen_q), or (heads, all queries)
    when queries are packed, where ``seqlen_q`` and ``seqlen_k`` are the largest lengths.
    ``extras`` are the parameters of the variant's features and of the element type.
    """

    seqlen_q: Int32
    seqlen_k: Int32
    num_q_heads: Int32
    scale_log2: Float32
    lse: Int64
    extras: Extras[Int64, Int32, Float32]


@dataclass(frozen=True)
class Sequence:
    """One sequence of the batch.

    Attributes:
        seqlen_q, seqlen_k: its queries, and its keys that count.
        first_query, first_key: its first rows in packed operands, 0 in others.
        query_batch, key_batch: its batch coordinate in the operands' maps.
        lengths: its valid keys per padding slot of the mask.
    """

    seqlen_q: Int32
    seqlen_k: Int32
    first_query: Int32 | int
    first_key: Int32 | int
    query_batch: Int32
    key_batch: Int32
    lengths: dict[int, Int32]

    @property
    def offset(self) -> Int32:
        """What is added to a query's position to get its row, counted from the first key."""
        return self.seqlen_k - self.seqlen_q


def _bounds(offsets: Int64, batch: Int32) -> tuple[Int32, Int32]:
    """Return first row and length of sequence ``batch``, from the array of first rows."""
    first = gmem.load_i32(gmem.word_address(offsets, batch))
    return first, gmem.load_i32(gmem.word_address(offsets, batch + 1)) - first


def decode_sequence(spec: AttentionSpec, args: Arguments, batch: Int32) -> Sequence:
    """Return sequence ``batch``; dense operands take no instruction."""
    variant, extras = spec.variant, args.extras
    first_query, seqlen_q, query_batch = 0, args.seqlen_q, batch
    if variant.ragged_q:
        first_query, seqlen_q = _bounds(extras.cu_seqlens_q, batch)
        query_batch = Int32(0)
    first_key, seqlen_k, key_batch = 0, args.seqlen_k, batch
    if variant.ragged_k:
        first_key, seqlen_k = _bounds(extras.cu_seqlens_k, batch)
        key_batch = Int32(0)
    if variant.used_k:
        seqlen_k = gmem.load_i32(gmem.word_address(extras.seqused_k, batch))
    lengths = {
        padding.slot: gmem.load_i32(gmem.word_address(padding.address, batch))
        for padding in extras.padding
    }
    return Sequence(
        seqlen_q, seqlen_k, first_query, first_key, query_batch, key_batch, lengths
    )
