"""Figures in the text of the page of experiments: from records of other benchmarks, not typed.

``{{kind: words}}`` in a text is replaced by a figure:

* ``{{cycles: COLUMN: PROBLEM}}``: a row of the side-by-side page;
* ``{{cost: KERNEL: SCHEDULER: WHAT}}``: what a CTA takes for its start ("start"), a query tile
  ("tile") or so many keys (a number), of ``costs.json``;
* ``{{T1: COMPARISON: RELEASE}}``: of Modular's kernel, beside which the originals' page has ours.

All are predictions with the chip's own values.
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


KINDS: Final[dict[str, Callable[..., int]]] = {"cycles": cycles, "cost": cost, "T1": first_turn}


def filled(text: str) -> str:
    """Return a text with its figures.

    Raises:
        KeyError, ValueError: there is no such kind, or no record for a place.
    """
    return PLACE.sub(lambda m: f"{KINDS[m[1]](*m[2].split(': ')):,}", text)
