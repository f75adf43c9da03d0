"""What is predicted for what a caller asks for, where the host would have chosen by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...plan.launch.sm100_selection import BlackwellSpec, choose_blackwell_scheduler
from ...plan.launch.sm100_splits import predicted_for_asked as predicted_splits
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.variant import Scheduler
from ..ask.problem import Problem


def predicted_for_asked(problem: Problem, spec: AttentionSpec) -> Iterator[str]:
    """Yield lines about a scheduler and a number of splits that a problem names.

    There is none where nothing is predicted: on Hopper, for other kernels than those that the host
    chooses by cycles, or for launches of no more query tiles than places.
    """
    if not isinstance(spec, BlackwellSpec):
        return
    features, sizes = problem.features, problem.sizes
    if features.scheduler not in (None, Scheduler.STREAM_K):
        in_tiles = replace(spec, variant=replace(spec.variant, scheduler=Scheduler.TILE))
        found = choose_blackwell_scheduler(in_tiles, sizes, problem.sms)
        if found and features.scheduler in found.by_whom:
            yield f"as asked for, {replace(found, scheduler=features.scheduler, worth=1).text}"
    if features.num_splits is not None:
        splits = predicted_splits(spec, sizes, features.count, problem.sms)
        if splits:
            yield splits.text
