"""Costs that stand for those of many draws; the chip's own values, the first draw, are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

from fa4_cute.plan.config.prediction import COUNTED_KEYS, Costs

Draws = Sequence[Sequence[float]]
"""Start, query tile and key by draw, and whatever else was measured with them."""


def averages(draws: Draws, of: Callable[[list[float]], float]) -> list[float]:
    """Return the average of each thing that was measured; none is below 0."""
    return [max(0, of(list(values))) for values in zip(*draws[1:], strict=True)]


def costs_of(draws: Draws, of: Callable[[list[float]], float] = median) -> Costs:
    """Return the medians of start, query tile and key."""
    first, tile, key, *_ = averages(draws, of)
    return Costs(round(first), round(tile), round(key * COUNTED_KEYS))


def means_of(draws: Draws) -> Costs:
    """Return the means where :func:`costs_of` has medians.

    What a launch takes is a sum of these parts, and its mean that of theirs. Medians of two parts
    are of different draws: their sum was off by a hundredth, as much as schedulers differ.
    """
    return costs_of(draws, mean)
