"""Masks as pictures: what each query sees, and what the kernel does with each tile of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fa4_cute.masks import AttentionMask
from fa4_cute.plan.facts.hardware import WARP_THREADS, ceil_div
from fa4_cute.plan.masks.key_tiles import (
    WORD_COLUMNS,
    KeyTileMap,
    Rows,
    TileStatus,
    tile_status,
    visible_keys,
)
from fa4_cute.plan.masks.masks import terms
from fa4_cute.plan.spec.kernel_spec import KernelSpec

COLOURS = {
    TileStatus.SKIPPED: "#f2f2f2",
    TileStatus.FULL: "#6a9f58",
    TileStatus.MASKED: "#d99a2b",
}
LABELS = {
    TileStatus.SKIPPED: "never loaded",
    TileStatus.FULL: "all visible: no selects",
    TileStatus.MASKED: "masked, or biased, per element",
}


class Picture:
    """One mask over one sequence, as the kernel of ``spec`` divides it; black lines bound tiles.

    Args:
        mask: the mask; padding lengths are those of sequence 0.
        spec: the kernel, which gives the sizes of its tiles.
        seqlen_q, seqlen_k: lengths of the sequence.
    """

    def __init__(self, mask: AttentionMask, spec: KernelSpec, seqlen_q: int, seqlen_k: int) -> None:
        self.mask = mask
        self.spec = spec
        self.seqlen_q, self.seqlen_k = seqlen_q, seqlen_k
        self.lengths = tuple(int(tensor[0]) for tensor in mask.lengths)

    @property
    def keys(self) -> int:
        """Keys of a tile."""
        return self.spec.config.BN

    @property
    def positions(self) -> int:
        """Queries of a work tile: what decides which key tiles are loaded."""
        return self.spec.config.PairBM_eff()

    @property
    def warp_positions(self) -> int:
        """Queries of a warp: what decides whether a tile needs selects."""
        return WARP_THREADS // self.spec.rows_per_position

    def rows(self, first: int, count: int) -> Rows:
        """Return ``count`` rows from query ``first`` on."""
        start = first + self.seqlen_k - self.seqlen_q
        return Rows(start, start + count - 1, self.seqlen_k, self.lengths)

    def visible(self) -> np.ndarray:
        """Return what each query sees, (seqlen_q, seqlen_k), from the plan's definition."""
        seen = np.zeros((self.seqlen_q, self.seqlen_k), dtype=bool)
        for query in range(self.seqlen_q):
            row = query + self.seqlen_k - self.seqlen_q
            keys = visible_keys(self.mask.plan, row, self.seqlen_k, self.lengths)
            seen[query, sorted(keys)] = True
        return seen

    def statuses(self) -> dict[tuple[int, int], TileStatus]:
        """Return what happens to (first query of a warp, first key of 32).

        Whole key tiles are loaded or not; a warp then decides for every 32 keys whether it selects.
        """
        found = {}
        for first in range(0, self.seqlen_q, self.positions):
            loaded = set(self.visited(self.rows(first, self.positions)))
            end = min(first + self.positions, self.seqlen_q)
            for query in range(first, end, self.warp_positions):
                warp = self.rows(query, self.warp_positions)
                for key in range(0, self.seqlen_k, WORD_COLUMNS):
                    found[query, key] = self._status(warp, key, key // self.keys in loaded)
        return found

    def _status(self, warp: Rows, key: int, is_loaded: bool) -> TileStatus:
        if not is_loaded:
            return TileStatus.SKIPPED
        status = tile_status(self.mask.plan, warp, key // WORD_COLUMNS, WORD_COLUMNS)
        return TileStatus.FULL if status is TileStatus.FULL else TileStatus.MASKED

    def visited(self, rows: Rows) -> list[int]:
        """Return the key tiles that a work tile of ``rows`` visits, in order."""
        tiles = KeyTileMap.of(terms(self.mask.plan), rows, self.keys)
        return [tiles.tile(n) for n in range(tiles.count)]

    def counts(self) -> dict[TileStatus, int]:
        """Return the number of (warp, 32 keys) pairs of each kind."""
        found = list(self.statuses().values())
        return {status: found.count(status) for status in TileStatus}

    def draw(self, axes: Axes, title: str) -> None:
        """Draw the tiles, and over them in grey what is visible."""
        for (query, key), status in self.statuses().items():
            width = min(WORD_COLUMNS, self.seqlen_k - key)
            height = min(self.warp_positions, self.seqlen_q - query)
            axes.add_patch(
                Rectangle(
                    (key, query), width, height,
                    facecolor=COLOURS[status], edgecolor="white", linewidth=0.3,
                )
            )  # fmt: skip
        shade = np.zeros((self.seqlen_q, self.seqlen_k, 4))
        shade[..., 3] = 0.35 * self.visible()
        extent = (0, self.seqlen_k, self.seqlen_q, 0)
        axes.imshow(shade, extent=extent, aspect="auto", interpolation="nearest", zorder=3)
        for first in range(0, self.seqlen_q, self.positions):
            axes.axhline(first, color="black", linewidth=0.8, zorder=4)
        for first in range(0, self.seqlen_k, self.keys):
            axes.axvline(first, color="black", linewidth=0.8, zorder=4)
        axes.set(xlim=(0, self.seqlen_k), ylim=(self.seqlen_q, 0), title=title)
        axes.set(xlabel="key", ylabel="query")


def draw_all(pictures: Mapping[str, Picture], columns: int = 3) -> Figure:
    """Return one figure with all pictures and the meaning of the colours."""
    lines = ceil_div(len(pictures), columns)
    figure = Figure(figsize=(4.4 * columns, 3.4 * lines + 0.5), layout="constrained")
    panels: list[Axes] = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for axes in panels[len(pictures) :]:
        axes.axis("off")
    for axes, (title, picture) in zip(panels, pictures.items(), strict=False):
        picture.draw(axes, title)
    legend = [Patch(facecolor=COLOURS[s], edgecolor="grey", label=LABELS[s]) for s in TileStatus]
    legend.append(Patch(facecolor="black", alpha=0.35, label="visible"))
    figure.legend(handles=legend, loc="outside lower center", ncols=4)
    return figure


def as_table(pictures: Mapping[str, Picture]) -> str:
    """Return the counts of (warp, 32 keys) pairs as text."""
    width = max(map(len, pictures))
    lines = [f"{'mask':{width}}  skipped  unmasked  masked  loaded of all"]
    for title, picture in pictures.items():
        count = picture.counts()
        total = sum(count.values())
        skipped = count[TileStatus.SKIPPED]
        lines.append(
            f"{title:{width}}  {skipped:7}  {count[TileStatus.FULL]:8}  "
            f"{count[TileStatus.MASKED]:6}  {1 - skipped / total:13.0%}"
        )
    return "\n".join(lines)
