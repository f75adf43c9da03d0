"""Draws the side-by-side page from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import exp, log
from textwrap import fill
from typing import Final

from benchmarks.timing.side_by_side import libraries
from benchmarks.timing.side_by_side.extents import AMPLIFIED
from benchmarks.timing.side_by_side.grid.fetched import L2_BYTES
from benchmarks.timing.side_by_side.limits import Cell, limits, missing
from benchmarks.timing.side_by_side.records import Row, same_state
from sm100sim.timing.predict import Band
from sm100sim.timing.profile.held import OF_BAND, held, held_ratios

OURS: Final = "fa4_cute"
HEAD: Final = """# Attention side by side: predictions for a B200

Written by `python -m benchmarks.timing.side_by_side` from the rows in `rows.json`.
**Nothing here was measured.** Every number is a prediction of the clocked machine of
[timing.md](timing.md) with the values of a B200; how far such predictions are off is in
[timing_blackwell.md](timing_blackwell.md) and [timing_cycles.md](timing_cycles.md). So only ratios
count, and small ones say nothing.

{trust}
* **It has been wrong by that much.** The first predictions for an H200 were 23 % too slow for
  FlashAttention-4's kernels and 12 % for this package's, a lead of a tenth that the chip did not
  show. A likely cause is how the machine charged writes of registers beside wgmma; a B200's tensor
  cores write to Tensor Memory, so it should not act there: an argument, no measurement. The
  rules of now have been judged since ([timing_cycles.md](timing_cycles.md)).
* **fp8 is less certain.** The one published period of an fp8 kernel on a B200, FlashAttention-4's,
  is predicted 14 % too short (2,017 of 2,349 cycles; 1,677 of 1,855 on a B300), where bf16's is met
  within 1 % ([timing_blackwell.md](timing_blackwell.md)). A wait is missing, which one is not
  known, nor whether it is in this package's kernels. If it is in theirs only, fp8 leads are larger
  than here; if in ours only, smaller by as much.
* **Problems.** 32,768 tokens a batch, 2,048 columns of all heads, bf16 unless it says fp8; causal
  is aligned to the bottom right. Of sinks, windows, softcaps (50), ALiBi and biases (bf16, shared
  by all sequences) there are this package's and FlashAttention-4's kernels, whose softcap, ALiBi
  and bias are functions of scores. Decoding steps have one query a sequence; packed sequences
  follow one another without padding. Short prompts have one key tile and several query tiles on
  each SM. Chunks over a cache have few query tiles of many keys; one, the first, was executed for
  all. Steps of sequences that differ have 32: one with many keys, or all with others, the middles
  of 32 equal parts of the logarithms from 512 to 32,768 in a fixed order. These, short prompts,
  chunks and pages of 16 are of this package and FlashAttention-4 alone.
* **How.** A few clusters of launches of 1,024 to 4,096 keys are executed and replayed on one SM,
  chosen, or refused, so that a deviation of theirs comes back at most {amplified:g} times in what a
  key costs. A start, a query tile and a key are taken to cost the same elsewhere. The SMs take the
  tiles of the whole problem in the order of the kernel's scheduler; this package's kernel is the
  one that it chooses for that problem. What clusters share leaves the L2 once (an SM gets up to 100
  bytes a cycle of it, 68 of its own rows, as far as all SMs ask for so much). Bytes that must come
  from memory bound a launch from below.
  Misses of the L2 beyond them do not count, but in problems with sinks, windows, functions or
  biases, whose K, V and biases are followed through an L2 of {l2:.0f} MB, half of a B200's, in the
  order in which query tiles are taken; of the plain kernels' orders that is 9 % at most more than
  once. Of windows clusters are executed in two that are small enough for these launches, and what a
  key and the ends of a window cost is taken for others. Steps of decoding are executed as they are:
  of this package's CTAs, which take as many keys each, one that has most to do stands for all. It
  is the last at the query tile that it ends with, whose parts it joins; that comes after the bytes,
  too. FlashAttention-4's take query tiles in turn, whatever keys these have: where sequences differ
  a few are executed, and the others follow from their starts, query tiles and keys.
* **Ratio.** Cycles of the column over those of this package's kernel by the same assembler: with
  the chip's own values, then draw by draw: median, and 5 to 95 % of {draws} draws in brackets.
  **Above 1 this package is ahead.** Where the two disagree, a kernel's time depends on what is not
  known of the chip. The busiest unit is that of the SM, with the share of the launch in which it
  works.
* **Columns.** "CUDA 12" is machine code by ptxas 12.9, "CUDA 13" by 13.4: the assemblers in the
  CuTe DSL's packages. FlashAttention-4 (PyPI `flash-attn-4`) lets a pair of CTAs share each MMA
  where it chooses to, but not where torch is built for CUDA 12; "one CTA" is its switch
  `FA_DISABLE_2CTA=1`, "keys split" its `num_splits=0`, by which it chooses how often it splits the
  keys; by itself it does not; "CLC" its `FA_CLC=1`, by which CTAs that run take over those that
  have not started: with a mask, packed where heads share keys, and not for pairs, which "one CTA,
  CLC" is without. "Spill-free" is its PTX with 184, 80 and 64 registers in `setmaxnreg` for
  softmax, correction and other warps, its own split for pairs, instead of 192, 80 and 48 (fp8
  d192/128 192, 56 and 72), in the rows of one CTA where those spill and these do not. Its other
  columns are as shipped; a row that spills and has none of these beside it is named at the end.
  "Modular 26.7" is PyPI `max-core`, whose host code chooses the kernel; "CUTLASS" the kernel that
  its example 77 takes without options; "Gluon" the example `01-attention-forward.py` of
  triton-lang's Triton-to-tile-IR at 50ec1da08, compiled by Triton 3.6.0; "TIRx 0.1.2" is PyPI
  `tirx-kernels` with `apache-tvm` 0.27.0, in fp16 and at the level of register usage that it asks
  ptxas for; of these four the PTX is taken. "Local": instructions that move registers to local
  memory and back; an empty cell is none.
* **Libraries.** The DSL's libraries for CUDA 12 wrote all PTX of FlashAttention-4 and of this
  package; in 4.8.1 those for CUDA 13 write the same, as older ones did not
  ([timing_blackwell.md](timing_blackwell.md)). Compared were 48 kernels, 31 of them as machine code
  too, and the {launches} launches of all {rows} rows of decoding, chunks, packed sequences
  and short prompts ({kernels} kernels, hashes in `libraries.json`): {differing} differ in more than
  the line `.version`, so no ratio moves.
"""


def band(row: Row) -> Band:
    """Cycles of a row: the draws, without the chip's own values."""
    return Band.of(row["cycles"][1:])


def ratio(row: Row, base: Row) -> Band:
    """Cycles over those of another row, draw by draw."""
    return Band.of([a / b for a, b in zip(row["cycles"][1:], base["cycles"][1:], strict=True)])


def of_one_state(rows: Sequence[Row], pairs: Sequence[Row]) -> list[Row]:
    """Rows with a star where they are of another state of the machine than most.

    Args:
        rows: those of the file. pairs: states that are equal (`records.STATES`).
    """
    of = [row["model"] for row in rows]
    same = {state: same_state(state, pairs) for state in {*of}}
    most = max(same.values(), key=lambda states: sum(map(of.count, states)), default=set[str]())
    return [{**row, "star": row["model"] not in most} for row in rows]


def named(row: Row) -> str:
    """The column of a row, marked where it is of another state of the machine."""
    return f"{row['column']}{' *' * row['star']}"


def base_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """This package's row of the same problem, by the same assembler, on the same machine."""
    for other in rows:
        same = problem(other) == problem(row) and other["star"] == row["star"]
        if same and other["column"].startswith(OURS) and other["compiler"] == row["compiler"]:
            return other
    return None


def problem(row: Row) -> tuple[str, str, int]:
    """What a row is a prediction for."""
    return row["family"], row.get("name", ""), row.get("length", 0)


def verdict(found: Band) -> str:
    """Whether this package is ahead: where the whole band says so."""
    return "ahead" if found.low > 1 else "behind" if found.high < 1 else "open"


def page(rows: Sequence[Row], pairs: Sequence[Row], before: Iterable[str] = ()) -> str:
    """The page.

    Args:
        rows: those of the file. pairs: states of the machine that are equal (`records.STATES`).
        before: lines of the section that has the page of before.
    """
    made = of_one_state([row for row in rows if "cycles" in row], pairs)
    draws = len(made[0]["cycles"]) - 1 if made else 0
    compared = libraries.counts(libraries.recorded())
    head = HEAD.format(
        draws=draws, amplified=AMPLIFIED, l2=L2_BYTES / 1e6, trust=trusted(made), **compared
    )
    lines = [head, *states(made), *summary(made), ""]
    lines += [*before, *limits(list(cells(made))), "", "## Every row", "", *tables(made)]
    lines += ["", "## Without a prediction", "", *missing(rows), "", *models(made, pairs)]
    return "\n".join([*lines, ""])


def trusted(rows: Sequence[Row]) -> str:
    """How far a ratio must be from 1, by what was held to chips, and how many are."""
    single, ours = held(), held_ratios("b200")
    found = list(cells(rows))
    near = [verdict(cell.band) for cell in found if ours.doubted(cell.ratio)]
    far = [cell.ratio for cell in found if not ours.doubted(cell.ratio)]
    errors = " ".join(
        f"Of {of.pairs} ratios {of.of} predictions are {of.mean:.1%} off, nine of ten within "
        f"{of.nine:.1%}, and of the {of.ordered} predicted to be {of.order:.0%} or more from 1 "
        "none is on the other side."
        for of in (ours, held_ratios("h200"))
    )
    text = (
        "* **How far a lead must be.** Bands are of draws of values that are not known and leave "
        f"out the model's own error: on an H200 they hold {single.in_band / single.kernels:.0%} of "
        f"measured kernels, where {OF_BAND:.0%} would be expected. {errors} Smaller ones come in "
        "hardly any order (Kendall's tau of knobs, builds and exponentials in "
        "[timing_blackwell.md](timing_blackwell.md)). **So doubt a ratio between "
        f"{1 - ours.nine:.2f} and {1 + ours.nine:.2f}, whatever its band says**: {len(near)} of "
        f"the {len(found)} below, of which {near.count('ahead')} are called ahead, "
        f"{near.count('open')} open and {near.count('behind')} behind. Of the others "
        f"{sum(ratio > 1 for ratio in far)} are ahead and {sum(ratio < 1 for ratio in far)} behind."
    )
    return fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def states(rows: Sequence[Row]) -> Iterator[str]:
    """What rows of other machines are, where there are any."""
    old = sum(row["star"] for row in rows)
    if old:
        yield (
            f"**{old} of {len(rows)} rows are of other states of the machine, marked \\*.** A "
            "ratio is only given between two rows with the mark or two without it."
        )
        yield ""


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Of each column: how often this package is ahead, and by how much."""
    yield "## Where this package is ahead"
    yield ""
    yield (
        "Ahead or behind: the whole band of draws is on that side of 1. Beyond the error: outside "
        "of what is to be doubted (above). Means are geometric, of all rows."
    )
    yield ""
    yield (
        "| column | rows | ahead | open | behind | beyond the error | mean | mean of medians | "
        "largest lead | largest gap |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for column in columns(rows):
        pairs = [(row, base_of(row, rows)) for row in rows if row["column"] == column]
        found = [(row, base) for row, base in pairs if base and base is not row]
        if not found:
            continue
        bands = [ratio(row, base) for row, base in found]
        told = [verdict(r) for r in bands]
        values = [own(row, base) for row, base in found]
        beyond = sum(not held_ratios("b200").doubted(value) for value in values)
        best, worst = (found[values.index(f(values))][0] for f in (max, min))
        yield (
            f"| {column} | {len(found)} | {told.count('ahead')} | {told.count('open')} | "
            f"{told.count('behind')} | {beyond} | {mean(values):.3f} | "
            f"{mean([r.median for r in bands]):.3f} | "
            f"{max(values):.2f}: {title(best)} | {min(values):.2f}: {title(worst)} |"
        )


def cells(rows: Sequence[Row]) -> Iterator[Cell]:
    """Each row of another column beside this package's."""
    for row in sorted(rows, key=place):
        base = base_of(row, rows)
        if base and base is not row:
            group, _, member = title(row).partition(", ")
            yield Cell(title(row), group, member, row, base, own(row, base), ratio(row, base))


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def own(row: Row, base: Row) -> float:
    """The ratio with the chip's own values."""
    return float(row["cycles"][0] / base["cycles"][0])


def title(row: Row) -> str:
    """A problem in words."""
    return row.get("name") or f"{row['family']}, {row['length']:,}"


def busiest(row: Row) -> str:
    """The busiest unit, and the share of the time in which it works."""
    unit, share = max(row["busy"].items(), key=lambda item: item[1])
    return f"{unit} {share:.0%}"


def columns(rows: Sequence[Row]) -> list[str]:
    """The columns: this package's first."""
    return sorted({row["column"] for row in rows}, key=lambda name: (name[:3] != OURS[:3], name))


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table of all rows."""
    order = {name: number for number, name in enumerate(columns(rows))}
    title_before = ""
    yield "| problem | column | cycles | band | ratio | draw by draw | | busiest unit | local |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: (place(row), order[row["column"]])):
        found, base = band(row), base_of(row, rows)
        told = " | | "
        if base and base is not row:
            r = ratio(row, base)
            told = f"{own(row, base):.3f} | {r.median:.2f} ({r.low:.2f}–{r.high:.2f})"
            told += f" | {verdict(r)}"
        head = title(row) if title(row) != title_before else ""
        title_before = title(row)
        yield (
            f"| {head} | {named(row)} | {row['cycles'][0]:,} | "
            f"{found.low:,.0f}–{found.high:,.0f} | {told} | {busiest(row)} | "
            f"{row['local'] or ''} |"
        )


def place(row: Row) -> tuple[bool, str, int, str, int, str]:
    """Where a row's problem stands on the page."""
    words = row["family"].split()
    dims = int(words[1][1:].partition("/")[0]) if len(words) > 1 else 0
    return row["family"] == "other", words[0], dims, row["family"], row.get("length", 0), title(row)


def models(rows: Sequence[Row], pairs: Sequence[Row]) -> Iterator[str]:
    """Which states of the machine the rows are of."""
    by = Counter(row["model"] for row in rows)
    told = ", ".join(f"{name} ({count} rows)" for name, count in sorted(by.items()))
    yield f"State of the clocked machine, by a digest of its sources and chips: {told}."
    for pair in pairs:
        if pair["states"][0] in by and "moved" in pair:
            old, new = pair["states"]
            yield f"{old} stands beside {new} though its rows would move: {pair['moved']}."
        elif pair["states"][0] in by:
            (old, new), names = pair["states"], pair["repeated"]
            why = f", and {pair['why']}" if "why" in pair else ""
            yield f"{old} counts as {new}: repeated, rows are equal ({'; '.join(names)}){why}."
    yield f"An executed cluster deviates from start, tiles and keys by {most(rows):.1%} at most."


def most(rows: Sequence[Row]) -> float:
    """The largest residue of a fit."""
    return max((row.get("residue", 0) for row in rows), default=0)
