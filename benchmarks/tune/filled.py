"""Figures in the text of the page of experiments: from records of other benchmarks, not typed.

``{{kind: words}}`` in a text is replaced by a figure:

* ``{{cycles: COLUMN: PROBLEM}}``: a row of the side-by-side page;
* ``{{cost: KERNEL: SCHEDULER: WHAT}}``: what a CTA takes for its start ("start"), a query tile
  ("tile") or so many keys (a number), of ``costs.json``;
* ``{{T1: COMPARISON: RELEASE}}``: of Modular's kernel, beside which the originals' page has ours;
* ``{{stalls: CLASS: CHOICE: FIGURE}}``: "t1" or "turn" of a choice that the search judged;
* ``{{more: CLASS: CHOICE: FIGURE: NUMBER}}``: by how much such a figure is more than a number;
* ``{{band: CLASS: CHOICE: OTHER: CELL}}``: cycles of a choice over those of another one, draw by
  draw, in a cell of the class or ("all") in the mean of all;
* ``{{ring: DTYPE: HEAD DIMS}}``: slots of K and V of the kernel with two Q tiles.

Cycles are predictions with the chip's own values, those of the search bands of draws.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from benchmarks.originals.page import RESULTS
from benchmarks.timing.side_by_side.page import title
from benchmarks.timing.side_by_side.records import load
from benchmarks.tune.costs import FILE
from benchmarks.tune.records import Record, described
from benchmarks.tune.records import load as load_searched
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec

PLACE: Final = re.compile(r"\{\{(\w+): (.+?)\}\}")
PARTS: Final = ("start", "tile")


def cycles(column: str, problem: str) -> int:
    """Cycles of a row of the side-by-side page."""
    (row,) = (r for r in load() if "cycles" in r and (r["column"], title(r)) == (column, problem))
    return int(row["cycles"][0])


def cost(kernel: str, scheduler: str, what: str) -> int:
    """Cycles of a CTA's start, of a query tile or of some keys, of a kernel's record."""
    (record,) = (record for record in json.loads(FILE.read_text()) if record["name"] == kernel)
    own: list[float] = record[scheduler][0]
    if what in PARTS:
        return round(own[PARTS.index(what)])
    return round(own[2] * int(what.replace(",", "")))


def first_turn(comparison: str, release: str) -> int:
    """T1 of Modular's kernel of a release."""
    rows = json.loads(RESULTS.read_text())["rows"]
    (row,) = (row for row in rows if row["name"] == comparison)
    return int(row["theirs"][release]["launches"][0]["code"]["t1"])


def searched(of: str, choice: str) -> Record:
    """The record of a choice, in the words of ``described``."""
    records = load_searched()[1]
    (found,) = (r for r in records if (r.of, described(r.tuning)) == (of, choice))
    return found


def stalls(of: str, choice: str, figure: str) -> int:
    """A static figure of a choice."""
    return {"t1": searched(of, choice).t1, "turn": searched(of, choice).turn}[figure]


def more(of: str, choice: str, figure: str, number: str) -> int:
    """By how much a static figure of a choice is more than a number."""
    return stalls(of, choice, figure) - int(number.replace(",", ""))


def ratio(of: str, choice: str, other: str, cell: str) -> str:
    """Cycles of a choice over those of another one."""
    record, base = searched(of, choice), searched(of, other)
    found = record.score(base) if cell == "all" else record.ratios(base)[cell]
    return f"{found.median:.3f} ({found.low:.3f}–{found.high:.3f})"


def ring(dtype: str, depths: str) -> str:
    """Slots of K and V of the kernel with two Q tiles: of both in turn, or of each."""
    depth, ov_depth = map(int, depths.split("/"))
    config = KernelSpec.for_attention(DType(dtype), depth, head_dim_v=ov_depth, num_qo=2).config
    slots = config.num_kv_stages
    return f"{slots} that K and V take in turn" if config.use_fused_kv else f"{slots} of each"


KINDS: Final[dict[str, Callable[..., int | str]]] = {
    "cycles": cycles,
    "cost": cost,
    "T1": first_turn,
    "stalls": stalls,
    "more": more,
    "band": ratio,
    "ring": ring,
}


def filled(text: str) -> str:
    """Return a text with its figures.

    Raises:
        KeyError, ValueError: there is no such kind, or no record for a place.
    """
    return PLACE.sub(lambda m: _shown(KINDS[m[1]](*m[2].split(": "))), text)


def _shown(figure: int | str) -> str:
    return figure if isinstance(figure, str) else f"{figure:,}"
