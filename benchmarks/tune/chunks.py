"""What query tiles of causal chunks of prompts over pages cost: small launches, executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

import numpy as np
import torch

from benchmarks.tune import averages
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.plan.config.prediction import COUNTED_KEYS, Costs
from fa4_cute.plan.facts.hardware import align_up, ceil_div
from fa4_cute.plan.launch.sm100_selection import BlackwellSpec
from fa4_cute.plan.spec.variant import Scheduler

if TYPE_CHECKING:
    from benchmarks.tune.costs import Kind
    from sm100sim.crew.recording import Recording

PAGE: Final = 64
GROUP: Final = 4
"""Query heads, which are rows of one query tile."""
SMS: Final = 148
SCHEDULERS: Final = ("tile", "dynamic")


class Chunk(NamedTuple):
    """A chunk of a prompt: query tiles, and keys, of which the last are its own."""

    tiles: int
    keys: int


Launch = tuple[Chunk, ...]
SHORT, LONG = Chunk(2, 1024), Chunk(2, 4096)
ALONE: Final[dict[str, tuple[Launch, int]]] = {
    "short": ((SHORT,), 0), "long": ((LONG,), 0), "empty": ((SHORT, Chunk(1, 1024)), SHORT.tiles),
}  # fmt: skip
"""Launches of a CTA for every query tile, and which cluster is executed."""
TAKEN_OVER: Final[tuple[Launch, ...]] = (
    (SHORT,) * 2, (SHORT,) * 4, (LONG,) * 2, (Chunk(3, 1024), Chunk(2, 1024), Chunk(2, 1024)),
)  # fmt: skip
"""Launches that one cluster of dynamic CTAs executes whole; the last has empty query tiles, too few
for these to be counted by rows."""


def spec_of(kind: Kind, scheduler: str) -> BlackwellSpec:
    """Return the kernel of a kind, with a scheduler."""
    features = Features(
        ragged_q=True, used_k=True, page_size=PAGE, scheduler=Scheduler[scheduler.upper()],
        num_splits=1,
    )  # fmt: skip
    dtype = "fp8_e4m3" if kind.dtype == "fp8" else kind.dtype
    problem = Problem(
        dtype, 1, COUNTED_KEYS, COUNTED_KEYS, GROUP, 1, kind.depth, kind.ov_depth, causal=True,
        features=features, num_qo=None if kind.kernel == "pair" else int(kind.kernel[0]),
    )  # fmt: skip
    spec = require(choose(problem)).spec
    assert isinstance(spec, BlackwellSpec)
    return spec


def ptx_of(kind: Kind, scheduler: str) -> str:
    """Compile a kind's kernel, or take it from the cache, and return the digest of its PTX."""
    from benchmarks.tune.measure import ptx_hash

    return ptx_hash(spec_of(kind, scheduler))


def work_of(launch: Launch, positions: int, key_tile: int) -> tuple[int, int, int, int]:
    """Return a start, query tiles, their keys in whole key tiles, and empty query tiles.

    Args:
        launch: the chunks. positions: of a query tile. key_tile: keys that are visited together.
    """
    most, tiles, keys = max(chunk.tiles for chunk in launch), 0, 0
    for chunk in launch:
        for tile in range(chunk.tiles):
            seen = chunk.keys - (chunk.tiles - 1 - tile) * positions
            tiles, keys = tiles + 1, keys + align_up(seen, key_tile)
    return 1, tiles, keys, most * len(launch) - tiles


class Chunks:
    """Executes CTAs of a kind whose queries are chunks over pages."""

    def __init__(self, kind: Kind, maker: Any) -> None:
        """Keep the kind and who executes."""
        self.kind, self.maker = kind, maker
        config = spec_of(kind, SCHEDULERS[0]).config
        self.positions, self.key_tile = config.PairBM_eff(), config.BN

    def tensors(self, launch: Launch) -> dict[str, Any]:
        """Return the arguments of a call: standard normal, pages in order."""
        kind, generator = self.kind, torch.Generator().manual_seed(0)
        queries = [chunk.tiles * self.positions for chunk in launch]
        pages = [ceil_div(chunk.keys, PAGE) for chunk in launch]
        dtype = torch.float8_e4m3fn if kind.dtype == "fp8" else torch.bfloat16

        def normal(*shape: int) -> torch.Tensor:
            made = torch.randn(shape, generator=generator, dtype=torch.float32)
            return made.to(dtype)

        table = torch.zeros(len(launch), max(pages), dtype=torch.int32)
        for row, count in enumerate(pages):
            table[row, :count] = torch.arange(count) + sum(pages[:row])
        return {
            "q": normal(sum(queries), GROUP, kind.depth),
            "k": normal(sum(pages), PAGE, 1, kind.depth),
            "v": normal(sum(pages), PAGE, 1, kind.ov_depth),
            "cu_seqlens_q": torch.tensor([0, *queries]).cumsum(0).int(),
            "seqused_k": torch.tensor([chunk.keys for chunk in launch]).int(),
            "page_table": table,
            "max_seqlen_q": max(queries),
        }

    def recorded(
        self, scheduler: str, launch: Launch, which: Callable[[Any], Sequence[int] | None]
    ) -> Recording:
        """Return what the clusters of ``which`` executed."""
        import fa4_cute
        from benchmarks.timing.side_by_side.others import heard_by
        from fa4_cute.host.run import compute
        from fa4_cute.host.run.launch import pack_launch
        from sm100sim.crew.recording import recording
        from sm100sim.options import RunOptions
        from sm100sim.run import run

        found: list[Recording] = []

        def hear(request: Any) -> None:
            with recording(which(request), others=False) as launches:
                run(request, RunOptions(mode="fast"))
            found.extend(launches)

        options: dict[str, Any] = {"scheduler": scheduler, "num_splits": 1, "causal": True}
        options |= {} if self.kind.kernel == "pair" else {"num_qo": int(self.kind.kernel[0])}
        few = partial(pack_launch, num_sms=SMS)
        with mock.patch.object(compute, "pack_launch", few), heard_by(hear):
            fa4_cute.flash_attn_varlen(
                **self.tensors(launch), **options, arch="sm_100a", unchecked=True
            )
        (only,) = found
        name = spec_of(self.kind, scheduler).name
        if not only.request.kernel.startswith(name) or "rows" in only.request.kernel:
            raise ValueError(f"{only.request.kernel} is executed, not {name}")
        return only

    def cycles(self, scheduler: str, launch: Launch, cluster: int | None = None) -> list[float]:
        """Return what a cluster takes by draw; without one the first, which takes over all."""
        from benchmarks.timing.side_by_side import extents
        from benchmarks.timing.side_by_side.callers import CUDA12, Column
        from sm100sim.timing.sass.trace import Matcher

        which = None if cluster is None else [cluster]
        recorded = self.recorded(scheduler, launch, lambda _: which)
        kernel = self.maker.kernel(Column(scheduler, "fa4_cute", CUDA12), recorded.request)
        traced = Matcher(kernel, recorded).launch([cluster or 0])
        return [t.cycles for t in extents.times(traced.traces[0], traced, self.maker.draws)]

    def alone(self) -> list[tuple[float, float, float, float]]:
        """Return start (0), query tile, key and empty query tile of a CTA for each, by draw."""
        short, long, empty = (self.cycles("tile", *one) for one in ALONE.values())
        found = []
        for draw, a, b, none in zip(self.maker.draws, short, long, empty, strict=True):
            start, key = draw["cta_cycles"], (b - a) / (LONG.keys - SHORT.keys)
            found.append((0.0, start + a - key * SHORT.keys, key, start + none))
        return found

    def taken_over(self) -> list[tuple[float, float, float, float]]:
        """Return the same of dynamic CTAs, whose start counts once."""
        work = np.array([work_of(each, self.positions, self.key_tile) for each in TAKEN_OVER])
        times = np.array([self.cycles("dynamic", each) for each in TAKEN_OVER])
        prices = np.linalg.solve(work.astype(float), times).T.tolist()
        return [
            (draw["cta_cycles"] + start, tile, key, empty)
            for draw, (start, tile, key, empty) in zip(self.maker.draws, prices, strict=True)
        ]

    def record(self) -> dict[str, Any]:
        """Return the costs of every draw."""
        record: dict[str, Any] = {"name": self.kind.name}
        record["launch"] = [draw["launch_cycles"] for draw in self.maker.draws]
        record |= {"tile": self.alone(), "dynamic": self.taken_over()}
        record["ptx"] = {scheduler: ptx_of(self.kind, scheduler) for scheduler in SCHEDULERS}
        return record


def means_of(draws: Sequence[Sequence[float]]) -> tuple[Costs, int]:
    """Return the means over the draws, and an empty tile's."""
    return averages.means_of(draws), round(averages.averages(draws, mean)[3])


def row_text(kind: Kind, record: Mapping[str, Any]) -> str:
    """Return the row of the table that a record gives."""
    (tile, none), (dynamic, empty) = (means_of(record[s]) for s in SCHEDULERS)
    return (
        f"    ChunkRow({kind.key},\n             Costs{tuple(tile)}, Costs{tuple(dynamic)}, "
        f"{(none, empty)}),\n"
    )
