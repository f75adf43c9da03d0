"""What a row's output is divided by: the sum of its exponentials, with the sink; its logarithm."""

import math
from dataclasses import dataclass

import cutlass
from cutlass import Float32, cute

from ..device.math.arith import exp2_hardware, fma, log2_hardware, max2, mul, saturating_mul
from ..device.memory import gmem
from ..plan.facts.numbers import LN_2, LOG2_E, MAX_FLOAT32
from ..work.context import AttentionContext
from ..work.row import ThreadRow
from .row_store import log_sum_exp_address, partial_log_sum_exp_address


@dataclass(frozen=True)
class RowResult:
    """Outcome of the softmax of one row, in powers of two.

    Attributes:
        top: what the sum is relative to: the maximum of the scaled scores, less the lift of P.
        total: sum of the exponentials, 0 when the row saw no key.
        keep: factor that brings O to ``top``; 1 without a sink.
    """

    top: Float32
    total: Float32
    keep: Float32

    @classmethod
    def of(
        cls, ctx: AttentionContext, row: ThreadRow, row_max: Float32, row_sum: Float32
    ) -> "RowResult":
        """Return the outcome for the row's maximum and sum, with the head's sink if there is one.

        The sink is folded once per row, here: it only adds to the sum. It may exceed every score,
        and then O and the sum become relative to it.
        """
        # With biases alone a maximum may be as low as floats go, and so is what it is scaled to.
        times = saturating_mul if ctx.spec.adds_biases else mul
        top = times(row_max, row.scale)
        if ctx.spec.probability.lift:
            # The exponentials are relative to a maximum that is lower by the lift of P.
            top = top - Float32(ctx.spec.probability.lift)
        if not ctx.spec.variant.sink:
            return cls(top, row_sum, Float32(1.0))
        sink = gmem.load_f32(gmem.word_address(ctx.args.extras.sink, row.head))
        weight = sink * Float32(LOG2_E)
        if ctx.spec.variant.splits_keys:
            # One split of the row carries the sink.
            first = ctx.work.split == 0
            weight = Float32(cutlass.select_(first, weight, Float32(-math.inf)))
        if not row.is_modified:
            # The maximum of a row without keys is as low as the scale lets it, and sinks are lower.
            lowest = Float32(-MAX_FLOAT32)
            top = Float32(cutlass.select_(row_sum == Float32(0.0), lowest, top))
        highest = max2(top, weight)
        keep = exp2_hardware(top - highest)
        return cls(highest, fma(row_sum, keep, exp2_hardware(weight - highest)), keep)


@cute.jit
def write_log_sum_exp(ctx: AttentionContext, row: ThreadRow, result: RowResult) -> None:
    """Write the row's natural log-sum-exp, minus infinity when it saw neither key nor sink."""
    if cutlass.const_expr(ctx.spec.variant.return_lse or ctx.spec.variant.is_split):
        if row.position < ctx.work.sequence.seqlen_q:
            # log2(0) is minus infinity, and the maximum of a row without keys is finite.
            value = (result.top + log2_hardware(result.total)) * Float32(LN_2)
            if cutlass.const_expr(ctx.spec.variant.streams_keys):
                if ctx.work.num_parts > 1:
                    gmem.store_f32(partial_log_sum_exp_address(ctx, row), value)
                elif cutlass.const_expr(ctx.spec.variant.return_lse):
                    gmem.store_f32(log_sum_exp_address(ctx, row), value)
            elif cutlass.const_expr(ctx.spec.variant.is_split):
                gmem.store_f32(partial_log_sum_exp_address(ctx, row), value)
            else:
                gmem.store_f32(log_sum_exp_address(ctx, row), value)
