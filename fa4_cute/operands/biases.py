"""Dense biases of the mask, as the thread's row reads them from global memory.

A word of memory is loaded when the first of its columns is asked for, and a vector of words at once
where rows lie so: on Blackwell a thread has neighbouring columns, on Hopper two of every eight.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from cutlass import Float32, Int32

from ..device.math.arith import max2
from ..device.math.mask import Span, visibility_word, where_visible
from ..device.math.pack import widened
from ..device.memory import gmem
from ..plan.facts.dtypes import DType
from ..plan.facts.hardware import SM90A
from ..plan.facts.wgmma import PAIR, Columns
from ..plan.masks.key_tiles import WORD_COLUMNS
from ..plan.masks.masks import DenseBiasMask, Interval, Term
from ..work.context import AttentionContext
from ..work.row import ThreadRow
from ..work.visibility import RowView


def spans_of(intervals: Iterable[Interval]) -> list[Span]:
    """Return the intervals as pairs."""
    return [(i.start, i.stop) for i in intervals]


class RowBias:
    """The biases of the thread's row in one tile."""

    def __init__(
        self, ctx: AttentionContext, row: ThreadRow, first_key: Int32, view: RowView
    ) -> None:
        """Find where those of the thread's first column lie, whose key is ``first_key``.

        ``view``: what the row sees of the tile.
        """
        self.ctx = ctx
        self.view = view
        self.addresses = {}
        self.loads: dict[tuple[int, int], BiasLoad] = {}
        self.words: list[Int32] = []
        sizes = {bias.slot: bias.dtype.size for bias in ctx.spec.variant.changes.biases}
        for bias in ctx.args.extras.biases:
            tensor = gmem.AuxTensor(bias.address, bias.strides)
            first = tensor.address_of((ctx.work.batch, row.head, row.query))
            self.addresses[bias.slot] = gmem.element_address(first, first_key, sizes[bias.slot])
        self.num_keys = ctx.work.sequence.seqlen_k - first_key

    def added_to(self, score: Float32, column: int, first_column: int) -> Float32:
        """Return ``score`` of ``column`` with its bias; of columns from ``first_column`` on.

        A union of terms adds the largest sum of biases among the terms that show the key. What
        none shows becomes minus infinity: a score after the last key may be NaN.
        """
        terms = self.ctx.spec.variant.terms
        if len(terms) == 1:
            return score + self.sum_of(terms[0], column)
        bit = (column - first_column) % WORD_COLUMNS
        if bit == 0:
            self.words = [visibility_word(span, column) for span in spans_of(self.view.own)]
        best = None
        for word, term in zip(self.words, terms, strict=True):
            added = where_visible(word, bit, self.sum_of(term, column))
            best = added if best is None else max2(best, added)
        return where_visible(reduce(or_, self.words), bit, score + best)

    def sum_of(self, term: Term, column: int) -> Float32:
        """Return the sum of the biases of ``term`` in ``column``; past the last key anything.

        Where they are loaded one by one it is 0 there.
        """
        found = [self.of(bias, column) for bias in term.biases]
        return sum(found[1:], start=found[0]) if found else Float32(0.0)

    def start(self, columns: Columns) -> None:
        """Start to load all biases of ``columns``."""
        for bias in self.ctx.spec.variant.changes.biases:
            for i in range(len(columns)):
                self.load_of(bias, columns[i])

    def of(self, bias: DenseBiasMask, column: int) -> Float32:
        """Return one bias of ``column``, loaded before or now."""
        return self.load_of(bias, column).value(column)

    def load_of(self, bias: DenseBiasMask, column: int) -> "BiasLoad":
        """Return the load that brings the bias of ``column``, started before or now."""
        width = self.columns_at_once(bias)
        first = column - column % width
        place = bias.slot, first
        if place not in self.loads:
            self.loads[place] = BiasLoad(self.loaded(bias, first, width), first, bias.dtype)
        return self.loads[place]

    def columns_at_once(self, bias: DenseBiasMask) -> int:
        """Return how many neighbouring columns of the thread are loaded at once.

        On Hopper it is one where vectors would be too many registers.
        """
        if self.ctx.spec.arch != SM90A:
            return bias.at_once
        return min(bias.at_once, PAIR) if self.ctx.spec.starts_biases else 1

    def loaded(self, bias: DenseBiasMask, column: int, width: int) -> list[Int32]:
        """Load ``width`` columns from ``column`` on, as words.

        A vector is in memory as a whole or not at all: rows are whole vectors long.
        """
        address, size = self.addresses[bias.slot], bias.dtype.size
        if width * size < gmem.WORD_BYTES:
            return [gmem.load_half_below(address, column, self.num_keys)]
        words = width * size // gmem.WORD_BYTES
        return gmem.load_words_below(address, (column, self.num_keys), column * size, words)


@dataclass(frozen=True)
class BiasLoad:
    """Neighbouring biases as they lie in memory.

    Attributes:
        words: what was loaded: one float each, or one or two halves.
        first: column of the first.
        dtype: their type.
    """

    words: list[Int32]
    first: int
    dtype: DType

    def value(self, column: int) -> Float32:
        """Return that of ``column`` as a float."""
        place = column - self.first
        if self.dtype is DType.FP32:
            return self.words[place].bitcast(Float32)
        return widened(self.words[place // 2], place % 2, self.dtype.ptx_name)
