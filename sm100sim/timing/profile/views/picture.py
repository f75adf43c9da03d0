"""A timeline as a picture: a line for each warp and unit, coloured by what it does or waits for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ....timeline import drawing
from ..kernel_profile import KernelProfile
from .tracks import KINDS, Track

PICTURES: Final = (".png", ".svg", ".pdf")
COLUMNS: Final = 1600
"""Pieces of a line; each shows what most of its cycles went to."""
LEAST: Final = 0.25
"""Part of a piece that something must fill to be shown."""
COLOURS: Final = {
    "runs": "#3b6ea5", "issue slot": "#f28e2b", "pipe": "#edc948", "mbarrier": "#e6e6e6",
    "barrier": "#cfcfcf", "MMA registers": "#b9a3c9", "TMEM": "#9c755f", "MUFU": "#e15759",
    "memory": "#76b7b2", "code": "#ff9da7", "other": "#bab0ac",
}  # fmt: skip
PALETTE: Final = (
    "#59a14f", "#17325c", "#a616a6", "#0a2e0a", "#225ee2", "#6a0a3a", "#ee2e8e", "#9ad62e",
    "#ee8eee", "#827616", "#3a0a6a", "#0ae276", "#6a220a", "#465e5e", "#22d6a6", "#caca82",
)  # fmt: skip
"""Of units and the critical path: each far from the others and from `COLOURS`."""
NAME: Final = "predicted cycles of an SM, {} (sm100sim.timing; nothing was measured on this chip)"
"""Of a chip: what the axis is called."""


def name_of(found: KernelProfile) -> str:
    """Return what the axis of a profile's timeline is called."""
    return NAME.format(found.chip.upper())


def draw(
    found: KernelProfile,
    tracks: Sequence[Track],
    path: Path,
    *,
    window: tuple[float, float] | None = None,
    title: str = "",
) -> None:
    """Write a picture; its format is that of the file's suffix.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; names the extra that installs it.
    """
    figure_class, patch_class = drawing()
    low, high = window or (0, found.cycles)
    colours = colours_of(tracks)
    figure = figure_class(figsize=(14, 0.3 * len(tracks) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    seen: dict[str, None] = {}
    for y, track in enumerate(tracks):
        for label, bars in bars_of(track, low, high).items():
            seen.setdefault(label)
            axes.broken_barh(bars, (y - 0.42, 0.84), facecolors=colours[label], linewidth=0)
    axes.set_yticks(range(len(tracks)), [track.name for track in tracks], fontsize=8)
    axes.set_ylim(len(tracks) - 0.4, -0.6)
    axes.set_xlim(low, high)
    axes.set_xlabel(name_of(found))
    named = f"{found.kernel[:70]} on {found.chip}: {found.cycles:,.0f} cycles"
    axes.set_title(title or named, fontsize=10)
    order = [label for label in colours if label in seen]
    figure.legend(
        handles=[patch_class(color=colours[label], label=label) for label in order],
        loc="outside lower center", ncols=9, fontsize=8, frameon=False,
    )  # fmt: skip
    figure.savefig(path, dpi=130)


def colours_of(tracks: Sequence[Track]) -> dict[str, str]:
    """Return the colour of each label: those of warps, then those of units."""
    colours = {kind: COLOURS[kind] for kind in KINDS}
    units = dict.fromkeys(label for track in tracks if track.unit for label in track.labels)
    for k, label in enumerate(label for label in units if label not in colours):
        colours[label] = PALETTE[k % len(PALETTE)]
    return colours


def bars_of(track: Track, low: float, high: float) -> dict[str, list[tuple[float, float]]]:
    """Return (start, width) of a track's pieces by label, as finely as a picture shows them."""
    width = (high - low) / COLUMNS
    edges = np.linspace(low, high, COLUMNS + 1)
    ends = track.shown_end
    spent = np.zeros((len(track.labels), COLUMNS))
    for label in np.unique(track.label).tolist():
        mine = track.label == label
        at = np.column_stack([track.start[mine], ends[mine]]).ravel()
        cycles = np.cumsum(ends[mine] - track.start[mine])
        until = np.column_stack([np.concatenate([[0], cycles[:-1]]), cycles]).ravel()
        spent[label] = np.diff(np.interp(edges, at, until)) / width
    covered = spent.sum(axis=0)
    chosen = np.where(covered > LEAST, spent.argmax(axis=0), -1)
    places = np.flatnonzero(np.diff(chosen)) + 1
    found: dict[str, list[tuple[float, float]]] = {}
    for first, last in zip([0, *places.tolist()], [*places.tolist(), COLUMNS], strict=True):
        if chosen[first] >= 0:
            bar = (low + first * width, (last - first) * width)
            found.setdefault(track.labels[chosen[first]], []).append(bar)
    return found
