"""What is predicted for a launch whose sequences may differ, if all are as long as they may be.

Only the device knows how long each one is, so that nothing is chosen by these cycles: stream-K and
dynamic CTAs are taken without them. They say what a launch takes at most, by the tables of the
plan (``plan.config.predicted``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ...plan.config.predicted import LAUNCH_CYCLES
from ...plan.launch.key_splits import tiles_in_line
from ...plan.launch.loads import reading_cycles
from ...plan.launch.sm100_selection import BlackwellSpec, choose_blackwell_scheduler, is_empty
from ...plan.launch.sm100_splits import SplitLoad, decoding_row_of
from ...plan.launch.tiles import AttentionSizes
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.variant import Partition, Scheduler
from ..ask.problem import Problem


def predicted_if_equal(problem: Problem, spec: AttentionSpec) -> Iterator[str]:
    """Yield a line about a launch with stream-K, or of packed sequences that are handed out.

    There is none on Hopper, or where nothing is predicted of dense sequences either.
    """
    sizes, variant = problem.sizes, spec.variant
    if not isinstance(spec, BlackwellSpec) or is_empty(sizes):
        return
    if variant.streams_keys:
        cycles = streamed_cycles(spec, sizes, problem.sms)
        of = "medians of draws"
    elif variant.ragged_q and variant.is_dynamic:
        cycles = handed_out_cycles(spec, sizes, problem.sms)
        of = "means of draws, by costs of dense launches"
    else:
        return
    if cycles:
        length = f"if all {sizes.batch} sequences have {sizes.seqlen_k:,} keys, as many as may be"
        yield f"{length}: predicted for a B200 are {cycles:,} cycles (of {of})"


def streamed_cycles(spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int) -> int:
    """Return what a stream-K launch of equal lengths takes; 0 where that is not predicted: of pairs
    it is not known how long their last CTAs join parts."""
    in_tiles = replace(spec.variant, scheduler=Scheduler.TILE)
    row = decoding_row_of(spec, in_tiles)
    if row is None or row.last is None:
        return 0
    tiles = tiles_in_line(spec, sizes, [sizes.seqlen_k] * sizes.batch, num_sms)
    work = Counter[int]()
    for tile in tiles:
        first = tile.part(0)
        for cta in range(-first.index, first.num_parts - first.index):
            work[cta] += row.tile.query_tile(tile.part(cta).count * spec.config.BN)
    load = SplitLoad.of(spec, sizes, num_sms, row)
    parts = max(int(tile.part(0).num_parts) for tile in tiles)
    joining = load.joining_cycles(parts, Partition.LAST)
    reading = max(row.tile.first + max(work.values()), reading_cycles(spec, sizes))
    return LAUNCH_CYCLES + reading + joining


def handed_out_cycles(spec: BlackwellSpec, sizes: AttentionSizes, num_sms: int) -> int:
    """Return what dynamic CTAs take with dense sequences, 0 where that is not predicted."""
    dense = replace(
        spec.variant, scheduler=Scheduler.TILE, ragged_q=False, ragged_k=False, by_rows=False
    )
    whole = replace(sizes, total_q=0)
    found = choose_blackwell_scheduler(replace(spec, variant=dense), whole, num_sms)
    cycles = found.by_whom.get(Scheduler.DYNAMIC, 0) if found else 0
    return cycles and max(cycles, LAUNCH_CYCLES + reading_cycles(spec, whole))
