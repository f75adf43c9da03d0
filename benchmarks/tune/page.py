"""The page of experiments: what the search found, and what was tried by hand.

    python -m benchmarks.tune.page docs/experiments.md

Tables come from `records.json`, `masked.json` and `experiments.toml`, the text after them from
`remarks.txt`, with figures of other records (`filled`); nothing is predicted here.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from benchmarks.tune.classes import CLASSES, DECODED
from benchmarks.tune.filled import filled
from benchmarks.tune.masked import Masked, kept
from benchmarks.tune.records import (
    DEFAULT,
    MadeWith,
    Record,
    best,
    described,
    load,
    model_hash,
    of_class,
    today,
)
from sm100sim.timing.predict import Band
from testing.site.target import target

EXPERIMENTS: Final = Path(__file__).parent / "experiments.toml"
REMARKS: Final = Path(__file__).parent / "remarks.txt"
"""What the page ends with."""
HEAD: Final = """# Experiments

Written by `python -m benchmarks.tune.page docs/experiments.md`: what was tried to make the kernels
faster on a B200, failures included. All cycles are predictions of the clocked machine
([timing.md](timing.md)); nothing here was measured on a B200. A ratio is cycles after over cycles
before, draw by draw over what is not known of the chip: median (5 %–95 %). A choice is taken when
the whole band of its mean ratio over all launches lies below 1. A choice that changes more is taken
only if it beats the simpler one by its whole band. Of choices that change as many values that of
the table stays until the whole band of another one beside it lies below 1.

## What the search found

`make tune` tries the free choices of the plan (`fa4_cute/plan/config/tuning.py`): keys of a tile,
emulated share of the exponentials, registers of softmax, correction and single warps, parts in
which P is handed over, and whether P crosses to the columns of the other chain's S. It compiles
each kernel, executes a CTA at two lengths, and predicts whole launches: 16K tokens of 2,048
columns, with one Q tile ("1q") in prompts of 128 queries ("short"), and a decoding step of {0}
sequences with {1} heads on {2}, which has copies of few rows. CTAs have one query tile; that calls
may get persistent or dynamic ones of the same free choices is not judged, but for spills: those of
dynamic causal CTAs count. A record is judged anew when the PTX of one of its kernels changes.
Ratios are over the defaults (16/64 emulated, 192/88/40 registers, P in 3+1, as many keys as fit).
T1 ([glossary.md](glossary.md)) and turn are stall cycles of the softmax loop without a mask. Where
P crosses, all of it is handed over together, and T1 ends there.
"""
TRIED: Final = """
## What was tried by hand

Head dim 128, bf16, all keys. Cycles of a key tile in the steady state, and of a CTA with six key
tiles, over those of the kernel named beside the idea. "-" is not predicted.

| idea | over | expected | a key tile | six key tiles | T1 | turn | spills | why |
|---|---|---|---|---|---|---|---|---|
"""
LAUNCHES: Final = """
## Whole launches

Who takes query tiles, in which order, and splits of the keys: cycles of whole launches of the
[side-by-side page](side_by_side.md) over those of before, with the chip's own values and, where a
band is given, draw by draw. Shares of memory's rate are of the cycles behind the 4,000 of a launch,
unless a row says "of all cycles"; the side-by-side page's "HBM" is of all.

| idea | expected | obtained | why |
|---|---|---|---|
"""
MASKED: Final = """
## Masked key tiles

`python -m benchmarks.tune.masked --write`: CTAs of 256 query rows with 2,048 keys, each of one
query tile, as calls of few query tiles get; what masked tiles cost in persistent and dynamic CTAs
is not here, but in their costs of causal launches. A causal one has two key tiles with a diagonal
at its end. Cycles more than a full key tile of the kernel without a mask, and the median as a share
of it. In bf16 above head dim 64 the first Q tile leaves the last one out, two products of the eight
that the tensor cores do in two key tiles.

| kernel | full key tile | unmasked tile, causal kernel | masked tile | last tile, a key short |
|---|---|---|---|---|
"""
MASKED_SAYS: Final = """{state}\
So a mask costs little where it hides nothing: {plain} of a key tile in the
median of the draws, by kernel. Masked tiles are slower than full ones by little where the chains
end apart (34 % at 96, 36 % at 128 and 20 % at 192/128 when they did not, and 18 %, 20 % and 9 %
while each column had a comparison and a selection), and by a third with fp8 (48 % at 64 and 37 % at
128 before) and half at 64, where the softmax is the limit. A last tile of 64 costs more, since full
ones of the kernel without a mask have a loop of their own, and the copy that masks is fetched for
one.

The mask itself was the cause. A warp took a comparison and a selection for each column of the
groups of 32 that it did not see whole, 256 instructions for 128 columns, each of the ALU of
a sub-partition for two cycles: 512 cycles, in which the row's maximum, the factor and P all wait.
Of the smaller of score and bound, which it takes now, half are left. What follows is of before. Of
the first query tile the last but one key tile holds the diagonal and the last is hidden whole. When
it still took both, its four warps masked 1,664 of the 2,304 instructions. That run replayed without
some of these instructions took as many cycles more than without a mask (both masked tiles, the
chip's own values, and the median of the draws):

| left out | d128 | d64 |
|---|---|---|
| nothing | +1,445, +1,670 | +1,582, +1,556 |
| comparisons and selections | +211, +116 | +133, +102 |
| those of the first query tile | +579, +626 | +482, +556 |
| those of the second query tile | +1,628, +1,651 | +1,749, +1,652 |
| those of the hidden tile | +1,384, +1,606 | +1,330, +1,349 |
| those of both diagonals | +997, +1,445 | +947, +840 |
| comparisons, as if predicates came for nothing | +1,238, +1,228 | +1,175, +1,164 |

So nine tenths were the mask, most of it in the first query tile, whose two masked tiles followed
one another. Predicates out of words of bits, seven to an instruction, are worth a quarter at most.
Since the chains end apart, each has one masked tile, and that of the second no longer waits for
that of the first; with fp8 and at head dim 64 both are as they were here, in CTAs of one query
tile. Where query tiles run on the chains end apart there, too ("Whole launches" above).
"""


def band(low: float, median: float, high: float) -> str:
    """Return a band of ratios."""
    return f"{median:.3f} ({low:.3f}–{high:.3f})"


def _of(found: Band) -> str:
    return band(found.low, found.median, found.high)


def found_rows(records: dict[Any, Record], now: Any = None) -> list[str]:
    """Return a row per choice of a class, the defaults first, then by cycles."""
    base, taken = records[DEFAULT], best(records, now)
    ordered = sorted(records.values(), key=lambda r: (r is not base, r.score(base).median))
    rows = []
    for record in ordered:
        if record is base:
            cells = [f"{record.median(cell):,.0f} cycles" for cell in record.cycles]
        else:
            cells = [_of(ratio) for ratio in record.ratios(base).values()]
        name = described(record.tuning)
        name = f"**{name}**" if record is taken else name
        cells += [str(record.t1), str(record.turn), str(record.spills)]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def tried_row(entry: dict[str, Any]) -> str:
    """Return the row of an experiment."""
    bands = [band(*entry[name]) if name in entry else "-" for name in ("tile", "start")]
    cells = [entry["idea"], entry["before"], entry["expected"], *bands]
    cells += [str(entry[name]) for name in ("t1", "turn", "spills")]
    cells.append(entry["why"])
    return f"| {' | '.join(cells)} |"


def launch_row(entry: dict[str, Any]) -> str:
    """Return the row of an experiment with whole launches."""
    return f"| {' | '.join(entry[name] for name in ('idea', 'expected', 'obtained', 'why'))} |"


def judged_by(made_with: dict[str, str], now: str) -> str:
    """Return the digest of the timing model of records, and whether it is not that of now."""
    old = "" if made_with["model"] == now else ", which is older than that of now"
    return made_with["model"][:8] + old


def page(
    made_with: MadeWith,
    records: list[Record],
    experiments: list[dict[str, Any]],
    launches: list[dict[str, Any]],
    masked: list[Masked],
) -> str:
    """Return the page."""
    lines, now = [HEAD.format(*DECODED)], model_hash()
    for of in CLASSES:
        found = of_class(records, of.name)
        if not found:
            lines += [f"### {of.name}\n", "Not searched yet: the defaults, or a wider row.\n"]
            continue
        names = [cell.name for cell in of.cells]
        lines += [
            f"### {of.name}\n",
            f"| choice (taken: bold) | {' | '.join(names)} | T1 | turn | spills |",
            "|---" * (len(names) + 4) + "|",
            *found_rows(found, today(of)),
            f"\nJudged by the timing model of digest {judged_by(made_with[of.name], now)}.\n",
        ]
    tried = "\n".join(map(tried_row, experiments))
    parts = (filled(launched(launches)), MASKED, "".join(f"{one.row()}\n" for one in masked))
    said = masked_says(masked) + filled(REMARKS.read_text())
    return "\n".join(lines) + TRIED + tried + "\n" + "".join(parts) + said


def masked_says(masked: list[Masked]) -> str:
    """Return what follows from the table of masked key tiles."""
    states = sorted({one.machine for one in masked})
    state = f"\nJudged by the clocked machine of state {', '.join(states)}.\n" if states else ""
    shares = [Band.of(one.shares(one.plain)).median for one in masked] or [0.0]
    plain = f"{100 * min(shares):+.0f} to {100 * max(shares):+.0f} %"
    return MASKED_SAYS.format(state=f"{state}\n", plain=plain)


def launched(launches: list[dict[str, Any]]) -> str:
    """Return the section of whole launches."""
    return LAUNCHES + "\n".join(map(launch_row, launches)) + "\n"


def current() -> str:
    """Return the page of the records and experiments that there are."""
    tried = tomllib.loads(EXPERIMENTS.read_text())
    return page(*load(), tried["experiment"], tried["launch"], kept())


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    target(__doc__, arguments).write_text(current())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
