"""What the calling thread's row sees: one interval of keys per term of the mask."""

from dataclasses import dataclass

from cutlass import Int32

from ..device.registers import DEVICE
from ..plan.masks.key_tiles import Rows, visible_to_all
from ..plan.masks.masks import Interval, is_zero
from ..plan.spec.attention_spec import AttentionSpec
from .sequence import Sequence


@dataclass(frozen=True)
class RowView:
    """Visible keys of one row, and of its whole warp, per term of the mask.

    Attributes:
        own: what the row sees.
        warp: what all rows of the warp see, the same in all its threads; may be left out.
    """

    own: tuple[Interval, ...]
    warp: tuple[Interval, ...]

    @classmethod
    def of(
        cls, spec: AttentionSpec, sequence: Sequence, position: Int32, warp: tuple[Int32, Int32]
    ) -> "RowView":
        """Return the view of the query at ``position``; ``warp`` is first and last of its warp."""
        first, last = (at + sequence.offset for at in warp)
        rows = Rows(first, last, sequence.seqlen_k, sequence.lengths)
        own = cls.of_row_alone(spec, sequence, position + sequence.offset).own
        return cls(own, tuple(visible_to_all(term, rows, DEVICE) for term in spec.variant.terms))

    @classmethod
    def of_row_alone(cls, spec: AttentionSpec, sequence: Sequence, own: Int32) -> "RowView":
        """Return what row ``own``, counted from the first key, sees; without its warp's view."""
        num_keys, lengths = sequence.seqlen_k, sequence.lengths
        terms = spec.variant.terms
        return cls(tuple(term.interval(own, num_keys, lengths, DEVICE) for term in terms), ())

    def relative_to(self, own_key: Int32, first_key: Int32) -> "RowView":
        """Return the view in columns of a tile that starts at ``first_key``.

        ``own_key`` is the key from which the thread counts its columns.
        """
        return RowView(_moved(self.own, own_key), _moved(self.warp, first_key))


def _moved(intervals: tuple[Interval, ...], by: Int32) -> tuple[Interval, ...]:
    # An interval that starts at key 0 starts at or before every tile: no test is needed there.
    return tuple(
        Interval(None if is_zero(i.start) else i.start - by, i.stop - by) for i in intervals
    )
