"""The page on FlashAttention-3."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, Final

from benchmarks.machine_state import states
from benchmarks.timing.fa3.table import CASES, RUN, Case, Key, microseconds
from sm100sim.timing.predict import Band

HEAD: Final = """# FlashAttention-3 on an H100: predicted beside published

Written by `python -m benchmarks.timing.fa3` from `benchmarks/timing/fa3/launches.json`. The times
are those that FlashGPU-Sim's repository says were measured (its page on a frontend of SASS, at
580352d1: forward, fp16, 1,500 MHz, nothing cached, Nsight Compute). **This project did not measure
them**; what it measured on an H100 and an H200 is in [timing_cycles.md](timing_cycles.md), kernels
of FlashAttention-4 for Hopper among them. Nothing is fitted to the rows of this page.

* **Which build.** The source names neither commit nor compiler. Here it is `hopper` of
  Dao-AILab/flash-attention at 0251105a with its own commit of CUTLASS and its own flags, PTX and
  machine code by CUDA 13.0's nvcc. Its README recommends CUDA 12.8. PyPI has no wheel of it.
* **How.** Heads of {lengths} queries and keys are executed, one and two of them, by
  one CTA, or one pair where the kernel's dispatch has pairs (d128, no mask). The second head costs
  what each further one does. Other lengths follow from the two longest: a query tile and a block
  of keys cost the same there. Without a mask, CTAs take tiles in turn and the busiest decides; with
  one each takes the next that is free, the longest first, and all are taken to end together.
* **Not in it.** One CTA alone asks the L2 for little, so waits for other CTAs at the L2 and for
  memory are left out. The band is of 4 draws, 5 to 95 %.
* **The worst rows**, d128 causal with 512 keys: memory alone takes 169 of the 244 us at the H100's
  measured rates, and 42 of 67. A key tile computes least there for what it loads, and the columns
  without a mask, or with 64, have more to compute beside it. So waits for memory are the likely
  cause: a hypothesis. The counter from which CTAs take tiles is the other thing that these have.
"""
Row = dict[str, Any]


def page(rows: Sequence[Row]) -> str:
    """Return the page: every published time, and those whose launches were not executed."""
    draws = min((len(row["cycles"]) for row in rows), default=0)
    ran: list[dict[Key, float]] = [
        {(r["dim"], r["causal"], r["length"], r["heads"]): r["cycles"][k] for r in rows}
        for k in range(draws)
    ]
    lines = [HEAD.format(lengths=", ".join(f"{n:,}" for n in RUN)).rstrip(), ""]
    table, errors, theirs = [], list[float](), list[float]()
    for case in CASES:
        try:
            own, *others = (microseconds(case, draw) for draw in ran)
        except (KeyError, ValueError):  # not executed
            table.append(f"{_begin(case)} | not run | | | {case.theirs:+.1f}% |")
            continue
        band = Band.of(others)
        errors.append(own / case.published - 1)
        theirs.append(case.theirs / 100)
        table.append(f"{_begin(case)} | {own:,.1f} | {band.low:,.1f}–{band.high:,.1f} | "
                     f"{errors[-1]:+.1%} | {case.theirs:+.1f}% |")  # fmt: skip
    if errors:
        lines += wrap(
            f"{len(errors)} of {len(CASES)} predicted: mean size of the error {_size(errors):.1%}, "
            f"worst {max(errors, key=abs):+.1%}; {sum(abs(e) <= 0.05 for e in errors)} within 5 %. "
            f"FlashGPU-Sim's own over the same rows: {_size(theirs):.1%}. "
            f"Instructions that spill: {max(r['local'] for r in rows)} at most. "
            f"Launches: {states(rows)}; they were not executed again since.",
            96, break_on_hyphens=False,
        )
    lines += ["", "| head dim | mask | batch | length | published, us | predicted | band | error | "
              "FlashGPU-Sim |", "|---|---|---|---|---|---|---|---|---|", *table]  # fmt: skip
    return "\n".join(lines) + "\n"


def _begin(case: Case) -> str:
    mask = "causal" if case.causal else "all"
    return f"| {case.dim} | {mask} | {case.batch} | {case.length:,} | {case.published:,.2f}"


def _size(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)
