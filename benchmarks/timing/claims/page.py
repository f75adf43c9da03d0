"""The section of the page on a B200 that has the ratios, and why those that are missed are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Final

from benchmarks.timing.claims.builds import TODAY
from benchmarks.timing.claims.causes import CAUSES
from benchmarks.timing.claims.found import TARGET, Found, told
from benchmarks.timing.claims.table import CLAIMS
from benchmarks.timing.claims.words import TIRX_KNOWN
from benchmarks.timing.gemms import PAIRS_AT_LEAST, nine_of_ten, tau
from sm100sim.timing.predict import Band

GROUPS: Final = {
    "knobs": "Knobs of FlashAttention-4, one CTA, head dim 128, all keys: time over the unchanged "
    "kernel's",
    "builds": "Builds of the same kernel: time over time",
    "exponentials": "Exponentials as polynomials: time over time",
    "masks": "A mask: time over time",
    "lengths": "Lengths, the shape of the curve: time per work over that of the longest",
    "libraries": "TIRx's attention (tirx-kernels 0.1.2, fp16, ptxas 13.4) beside "
    "FlashAttention-4 of the build: time over time",
}
CHANGES: Final = ("knobs", "builds", "exponentials")
"""Groups of one kernel and another of the same problem."""


def firsts(every: Iterable[Found]) -> list[Found]:
    """One prediction a claim: of the build that was timed, else of today's."""
    return list({found.claim.name: found for found in reversed(list(every))}.values())[::-1]


def section(every: Sequence[Found]) -> list[str]:
    """The tables of the page: every claim, hit or missed."""
    mine = firsts(every)
    todays = [found for found in every if found.build == TODAY.name]
    lines = [
        f"{len(mine)} ratios: {_counted(mine)}. Of the build that was timed are "
        f"{sum(found.build != TODAY.name for found in mine)}. Of today's, {TODAY.name}, "
        f"{len(todays)} are predicted: {_counted(todays)}.",
        *_orders(mine),
        *_sides(mine),
    ]
    for group, title in GROUPS.items():
        lines += ["", f"{title}:", "",
                  "| what | build | published | predicted | band | error | source |",
                  "|---|---|---|---|---|---|---|"]  # fmt: skip
        for claim in (claim for claim in CLAIMS if claim.group == group):
            rows = [found for found in every if found.claim is claim]
            if not rows:
                lines.append(f"| {claim.name} | | {claim.published:.3f} | not run | | | "
                             f"{claim.source} |")  # fmt: skip
            lines += map(_row, rows)
    return [*lines, "", TIRX_KNOWN]


def _row(found: Found) -> str:
    band, claim = Band.of(found.ratios[1:]), found.claim
    return (
        f"| {claim.name} | {found.build} | {claim.published:.3f} | {found.ratios[0]:.3f} | "
        f"{band.low:.3f}–{band.high:.3f} | {found.error:+.1%} | {claim.source} |"
    )


def _counted(every: Sequence[Found]) -> str:
    error = sum(abs(found.error) for found in every) / max(len(every), 1)
    return (
        f"{sum(found.hit for found in every)} within {TARGET:.0%} of what was published, "
        f"{sum(found.inside for found in every)} with the published value in the band of the "
        f"draws, mean size of the error {error:.1%}, nine of ten within "
        f"{nine_of_ten(abs(found.error) for found in every):.1%}"
    )


def _orders(every: Sequence[Found]) -> list[str]:
    """Rank correlation of predicted and published ratios within each group."""
    said = []
    for group in GROUPS:
        pairs = [(f.ratios[0], f.claim.published) for f in every if f.claim.group == group]
        if len(pairs) > PAIRS_AT_LEAST:
            said.append(f"{group} {tau(pairs):.2f} ({len(pairs)})")
    text = f"Order within a group, Kendall's tau: {', '.join(said)}; target 0.9."
    return ["", text] if said else []


def _sides(every: Sequence[Found]) -> list[str]:
    """Changes of a kernel that gain where they are predicted to lose, or lose where to gain."""
    wrong = [
        f"{f.claim.name} ({f.ratios[0] - 1:+.1%}, published {f.claim.published - 1:+.1%})"
        for f in every
        if f.claim.group in CHANGES and (f.ratios[0] - 1) * (f.claim.published - 1) < 0
    ]
    return ["", f"Of the other sign than published: {'; '.join(wrong)}."] if wrong else []


def causes(every: Sequence[Found]) -> list[str]:
    """What is known of the ratios beyond the target: groups, how many rows are in each, and what
    values of the machine move them."""
    far = [found for found in firsts(every) if not found.hit]
    left, lines = list(far), ["What is known of the misses:", ""]
    for title, names, text in CAUSES:
        mine = [found for found in left if re.search(names, found.claim.name)]
        left = [found for found in left if found not in mine]
        lines += _wrapped(f"* **{title}** ({len(mine)} of {len(far)}): {text}")
    lines += [f"* {found.claim.name}: not known." for found in left]
    lines += ["", *_wrapped("What values of the machine would bring a miss nearer, each taken to "
              "the better end of its range, by the ratio's own move:"), "",
              "| what | error | values |", "|---|---|---|"]  # fmt: skip
    return [*lines, *(f"| {found.claim.name} | {found.error:+.1%} | {told(found)} |"
                      for found in far)]  # fmt: skip


def _wrapped(text: str) -> list[str]:
    return wrap(text, 96, subsequent_indent="  " * text.startswith("*"), break_on_hyphens=False)
