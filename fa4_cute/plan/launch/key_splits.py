"""Into how many splits keys fall that a call leaves open: what all architectures have in common.

Where sequences may differ in keys, and only the device knows how many they have, no number is right
for all: stream-K gives every CTA as many (``stream_k``). A launch with equal lengths takes up to
three hundredths more than with the best number, others a quarter to nine tenths of it (measured on
an H200: ``docs/experiments.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..facts.hardware import SM90A, divide_cache_lines
from ..spec.attention_spec import AttentionSpec
from .launch import lines_of_launch, most_places, row_bytes
from .stream_k import MAX_PLACES, TileInLine, tiles_of_lengths
from .tiles import AttentionSizes, TileShape

WORTH: Final = 0.95
"""Keys are split where the grid ends after this share of the time at the latest."""
MOST_ROUNDS: Final = 4
"""Beyond so many CTAs on each SM, nothing becomes more even."""


STREAMED_KEYS: Final = 2048
"""Keys that the longest sequence has room for from which on stream-K is taken; with fewer, starts
and ends of query tiles are most of a launch, whoever takes them."""
STREAMED_PLACES: Final = 12
"""Places of the line for each SM, by the room, from which on stream-K is taken: with fewer, as many
splits of every sequence have an SM each, and no SM has to wait for the longest."""


SPLITS_OF_ALL: Final = 8
"""Splits of every sequence where rows are parts of cache lines, and do not divide them."""


def splits_alike(spec: AttentionSpec, sizes: AttentionSizes, num_sms: int) -> bool:
    """Return whether all sequences of a step have as many splits since heads share cache lines.

    CTAs that go from query tile to query tile by themselves, as stream-K has them, fall out of step
    after some microseconds, and neighbours then read what they share twice. The grid's
    order has all heads of a part of a sequence at work at the same time. On an H200 it takes 0.65
    to 0.98 of the time where the parts of one sequence are enough for all SMs (``docs/hopper.md``,
    "Rows that are parts of lines"); of a B200 nothing is known.
    """
    heads = sizes.blocks(TileShape.of(spec.config))[1]
    is_known = spec.arch == SM90A and heads * SPLITS_OF_ALL >= num_sms
    return is_known and not divide_cache_lines(row_bytes(spec)) and _may_stream(spec, sizes)


def _may_stream(spec: AttentionSpec, sizes: AttentionSizes) -> bool:
    """Whether stream-K may be taken for the queries of a step whose sequences may differ."""
    may_differ = sizes.batch > 1 and (spec.variant.used_k or spec.variant.ragged_k)
    if not (may_differ and spec.may_stream_keys and sizes.seqlen_k >= STREAMED_KEYS):
        return False
    return 0 < sizes.seqlen_q <= TileShape.of(spec.config).positions


def streams_keys(spec: AttentionSpec, sizes: AttentionSizes, num_sms: int) -> bool:
    """Return whether CTAs of ``spec`` take as many keys each where the call leaves that open.

    Queries have to fit one query tile: those of a step of decoding, or of a draft. Pairs of CTAs
    take short lines, too: their splits are put together by another launch.
    """
    if not _may_stream(spec, sizes) or splits_alike(spec, sizes, num_sms):
        return False
    in_pairs, places = spec.config.cta_group() > 1, most_places(spec, sizes)
    return places <= MAX_PLACES and (in_pairs or places >= STREAMED_PLACES * num_sms)


def tiles_in_line(
    spec: AttentionSpec, sizes: AttentionSizes, lengths: Sequence[int], num_sms: int
) -> list[TileInLine]:
    """Return the query tiles of each line of a stream-K launch, without a mask, by the keys of its
    sequences."""
    lines = lines_of_launch(spec, sizes, num_sms)
    return tiles_of_lengths(
        lengths, lines.heads, spec.config.BN, lines.stretches, spec.start_tiles
    )


def percent_less(share: float) -> int:
    """Return by how many hundredths something is less whose share of another is ``share``."""
    return round(100 * (1 - share))


@dataclass(frozen=True)
class KeySplits:
    """The decision for splits: how many, and why."""

    num_splits: int
    reason: str

    @property
    def text(self) -> str:
        """The decision in words."""
        count = "1 split" if self.num_splits == 1 else f"{self.num_splits} splits"
        return f"{count} of the keys: {self.reason}"


@dataclass(frozen=True)
class ChoiceWords:
    """A choice in words.

    Attributes:
        changes_scores: whether the kernel does, so that its keys may cost more.
        num_ctas: without splits.
    """

    changes_scores: bool
    num_ctas: int

    def of_whole(self, cycles: Mapping[int, int], worth: float) -> str:
        """Say what whole keys take, of cycles by numbers of splits, and from which share of it on
        others win."""
        least = min(cycles, key=cycles.__getitem__)
        others = "and no fewer with more"
        if cycles[least] < cycles[1]:
            others = f"{cycles[least]:,} with {least} times as many; more CTAs win only by more "
            others += f"than {percent_less(worth)} %"
        return f"{self._whole(cycles)}, {others}{self._told_of}"

    def of_split(self, cycles: Mapping[int, int], best: int, *, gives_all_as_many: bool) -> str:
        """Say what ``best`` splits and all others take, and why fewer cycles may not win."""
        others = (f"{cycles[count]:,} with {count}" for count in sorted(cycles.keys() - {1, best}))
        told = (self._whole(cycles), f"{cycles[best]:,} with {best} times as many", *others)
        why = ""
        if gives_all_as_many and min(cycles.values()) < cycles[best]:
            share = percent_less(WORTH)
            why = f"; within {share} % a number wins that gives all SMs as many CTAs"
        return ", ".join(told) + why + self._told_of

    def of_asked(self, cycles: Mapping[int, int], count: int) -> str:
        """Say what ``count`` splits take that a caller asks for."""
        split = f", {cycles[count]:,} with {count} times as many" if count > 1 else ""
        return f"as asked for; {self._whole(cycles)}{split}{self._told_of}"

    def _whole(self, cycles: Mapping[int, int]) -> str:
        return f"predicted for a B200 are {cycles[1]:,} cycles with {self.num_ctas} CTAs"

    @property
    def _told_of(self) -> str:
        """Say what the cycles are."""
        unchanged = ", of scores that nothing changes" if self.changes_scores else ""
        return f" (of medians of draws{unchanged})"


def split_candidates(units: int, num_sms: int, most: int) -> tuple[int, ...]:
    """Return numbers of splits up to ``most`` that give all SMs as many CTAs, and 1.

    Args:
        units: CTAs when keys are not split.
        num_sms: SMs of the device.
        most: splits that are allowed.
    """
    full = (ctas * num_sms // units for ctas in range(1, MOST_ROUNDS + 1))
    return (1, *dict.fromkeys(min(count, most) for count in full if min(count, most) > 1))
