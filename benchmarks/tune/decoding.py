"""What splits of a step of decoding cost: executed CTAs, and launches that put splits together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from benchmarks.hopper.times.problems import Problem
from fa4_cute.plan.config.prediction import EXCHANGED
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.chunks import boxes_of_tile
from fa4_cute.plan.spec.combine_spec import ABREAST, FIRST
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import PAGE_SIZES, Variant

if TYPE_CHECKING:
    from benchmarks.tune.costs import Kind

LINE: Final = (1024, 16384)
"""Keys of the steps by which a query tile and its keys are told apart. At head dimension 64 a key
costs 8 to 13 cycles from length to length; the line is 3 to 8 % above those between (fp8)."""
DECODED_KEYS: Final = 2048
"""Those of a CTA of the steps whose splits are joined."""
ROUNDS: Final = 4
"""Rounds of loads that the longer of two joinings has."""
COMBINED: Final = (FIRST, FIRST + ROUNDS * ABREAST)
"""Splits of the launches whose joining is predicted: as many as are loaded first, and more of them.

What joins splits waits for loads, of which as many as it has registers for are under way at once:
5 splits take it as long as 20. A line through 4 and 16 is a third too low for 5."""
GROUP: Final = 4
"""Query heads, which are rows of one query tile."""
TWICE: Final = 16
"""Rows of a query tile that the last CTA puts together in two rounds."""
SMALL_PAGE: Final = min(PAGE_SIZES)
BOXED: Final = "1q bf16 192/128, decoding"
"""The kind whose boxes are the limit over such pages: of five a page, and one Q tile."""
COPIED: Final = "pair fp8 256/256, decoding"
"""The kind of pairs that have copies of few rows, a kind of their own: this one has more."""
UNCOPIED: Final = 32
"""Queries with which a query tile of each CTA of a pair is full of rows."""
PROMPT: Final = (512, 16)
"""Queries and heads of a prompt in two splits, whose second kernel is predicted too."""


class Steps:
    """Executes CTAs of decoding steps of a kind; pairs join splits in a workspace only."""

    def __init__(self, kind: Kind, maker: Any) -> None:
        """Keep the kind and who executes."""
        self.kind, self.maker = kind, maker

    def launches(
        self, keys: int, splits: int, where: str = "workspace",
        rows: tuple[int, int, int] | None = None, page: int = 0,
    ) -> list[list[float]]:  # fmt: skip
        """Return the cycles of each launch of a call, by draw; ``rows`` are queries and heads, None
        those of a step."""
        from benchmarks.timing.side_by_side import extents
        from benchmarks.timing.side_by_side.callers import CUDA12, Column
        from sm100sim.timing.predict.gpu import time_launch

        kind, maker = self.kind, self.maker
        options: tuple[tuple[str, Any], ...] = (("num_splits", splits), ("split", where))
        if kind.kernel == "1q":
            # Asked for, one Q tile has each row once, as those of prompts have.
            options = (*options, ("num_qo", 1))
        if rows is None:
            rows = UNCOPIED if kind.name == COPIED else 1, GROUP, 1
        column = Column("decoding", "fa4_cute", CUDA12, options=options)
        dims = (kind.depth, kind.ov_depth)
        problem = Problem(
            "tune", 1, rows[0], keys, *rows[1:], *dims, dtype=kind.dtype, page=page
        )
        found = []
        for recorded in maker.records(column, problem):
            kernel = maker.kernel(column, recorded.request)
            launch = extents.representatives(kernel, recorded)
            found.append([time_launch(launch, draw).cycles for draw in maker.draws])
        return found

    def record(self) -> dict[str, Any]:
        """Return the costs of every draw."""
        record: dict[str, Any] = {"name": self.kind.name, "tile": [], "combine": []}
        few, first, last = (self.launches(keys, 1)[0] for keys in (DECODED_KEYS, *LINE))
        joined = [self.launches(DECODED_KEYS * splits, splits)[1] for splits in COMBINED]
        queries, heads = PROMPT
        prompt = self.launches(DECODED_KEYS, 2, rows=(queries, heads, heads))[1]
        starts = record["launch"] = [draw["launch_cycles"] for draw in self.maker.draws]
        for start, a, b, c, d, e in zip(starts, first, last, *joined, prompt, strict=True):
            key = (b - a) / (LINE[1] - LINE[0])
            record["tile"].append((0.0, a - start - key * LINE[0], key))
            record["combine"].append((c, (d - c) / ROUNDS, (e - c) / (queries * heads)))
        if self.kind.name == BOXED:
            record["box"] = self.box_cycles()
        return record if "pair" in self.kind.kernel else record | self.joins(few)

    def box_cycles(self) -> list[float]:
        """Return the cycles from one box of a page to the next, by draw."""
        first, last = (self.launches(keys, 1, page=SMALL_PAGE)[0] for keys in LINE)
        spec = KernelSpec.for_attention(
            DType.BF16, self.kind.depth, head_dim_v=self.kind.ov_depth, num_qo=1, group=GROUP,
            variant=Variant(page_size=SMALL_PAGE, used_k=True),
        )  # fmt: skip
        boxes = boxes_of_tile(spec.config) * (LINE[1] - LINE[0]) / spec.config.BN
        return [(b - a) / boxes for a, b in zip(first, last, strict=True)]

    def joins(self, few: Sequence[float]) -> dict[str, Any]:
        """Return what CTAs with one Q tile take to join splits; ``few`` is that of few keys."""
        # A CTA of each has as many keys as that of the shorter step, and finds itself the last.
        keys = DECODED_KEYS
        joining = [self.launches(keys * splits, splits, "last")[0] for splits in COMBINED]
        rows = TWICE // GROUP, GROUP, 1
        (twice,) = self.launches(keys * COMBINED[0], COMBINED[0], "last", rows)
        last = []
        for draw, one, a, b, c in zip(self.maker.draws, few, *joining, twice, strict=True):
            more = c - a
            # The model takes a fence for all CTAs for one inside of its CTA: what was stored before
            # has to reach the L2 first.
            waits = a - one - more + draw["global_latency"]
            last.append((waits, (b - a) / ROUNDS, more))
        exchange = []
        for size in EXCHANGED:
            # A CTA of the cluster has as many keys as that of the shorter step.
            (cluster,) = self.launches(size * keys, size, "cluster")
            exchange.append([more - one for more, one in zip(cluster, few, strict=True)])
        return {"last": last, "exchange": exchange}
