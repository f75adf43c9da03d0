"""Every case of Hopper and every order of variants that missed, and whether its reason is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from benchmarks.timing.judges.misses.orders import WANTED, orders

if TYPE_CHECKING:
    from benchmarks.timing.judges.page import Judged

WORST: Final = 0.12
NOT_KNOWN: Final = "not known"
STATES: Final = ("found", "found and mended", "found in part", "suspected", NOT_KNOWN)
"""What may be said of a reason; what is found and not mended is not in the machine."""
Known = Mapping[str, tuple[str, str]]
"""Case or ladder -> of `STATES`, and a phrase."""
CROWDED: Final = "arithmetic and products want the same registers' ports"
NOISE: Final = "all pairs that the chip tells apart are right; of the others it has no fixed order"

CASES: Final[Known] = {
    "quack gemm-4096x4096x4096-tile128x64-cluster1x1":
        ("found", "at the L2's limit with 21 % joined; the machine has one rate"),
    "CUTLASS persistent GEMM 4096x4096x4096 64 × 128, cluster 1 × 1":
        ("found", "as quack's 128 × 64"),
    "Triton GEMM, pointers 4096x4096x4096 64 × 64, 3 stages, 4 warps":
        ("found", "the L2 keeps its own clock; at the one that was recorded 0.0 %"),
    "Triton GEMM, pointers 3072x6144x2048 64 × 128, 3 stages, 4 warps":
        ("found in part", "the L2's clock; at the one that was recorded +12.8 %"),
    "Triton GEMM, pointers 3072x6144x2048 128 × 64, 4 stages, 4 warps":
        ("found", "the L2's clock; at the one that was recorded -1.3 %"),
    "Triton attention d64-2048 128 × 128, 2 stages, 8 warps":
        ("found and mended", "who begins in a later wave finds its rows in the L2"),
    "fa4_cute d256, 1024 queries on 4096 keys, pages of 16 as chosen":
        ("found and mended", "registers of boxes are read 37 cycles after they were asked for"),
    "fa4_cute d64, 2048 queries on 8192 keys, pages of 64 as chosen":
        ("found and mended", "the longest query tile stood for all of them"),
    "fa4_cute d128-1024 48 keys":
        ("found", f"{CROWDED}; without arithmetic +0.2 %, with additions alone -17 %"),
    "fa4_cute full-d96-k8192-b2-h21_21":
        ("found", f"{CROWDED}; without arithmetic -0.3 %, with additions alone -12 %"),
}  # fmt: skip
LADDERS: Final[Known] = {
    "CUTLASS persistent GEMM 4096x4096x4096": ("found", NOISE),
    "Triton GEMM, boxes 4096x4096x4096":
        ("found", "three slots hide what the machine has for memory, not what the chip takes"),
    "fa4_cute d128-2048":
        ("found in part", "differences of CTAs and ptxas's schedule, neither in the machine"),
    "fa4_cute d64-1024":
        ("found", "Q's bytes wait for those of other CTAs; not in the machine, which is right "
         "now by other rules"),
    "quack 4096x4096x4096": ("found", NOISE),
    "CUTLASS dense GEMM 3072x6144x2048":
        (NOT_KNOWN, "of nine pairs apart one is turned round: 128 × 128 in clusters of 1 × 2 is "
         "5.5 % fast"),
    "CUTLASS persistent GEMM 6144x2048x3072": ("found", NOISE),
    "Triton GEMM, pointers 3072x6144x2048":
        ("found in part", "64 × 128 beyond 12 %, as said of it: the L2's clock"),
    "fa4_cute d128-1024":
        ("found", f"64 keys are 9.9 % fast: {CROWDED}"),
    "fa4_cute d64-2048":
        ("found", f"fewer consumers are 9.5 % fast: {CROWDED}; without arithmetic +0.8 %"),
    "quack 2048x4096x6144": ("found", NOISE),
}  # fmt: skip
SAID: Final = (
    "Beyond 12 % before the measurement or by the rules of now, and orders of variants with tau "
    "below 0.9 in either. Found: measured, and said below or above, but not in the machine unless "
    "it is mended. Not known: nothing explains it."
)


def short_name(case: Judged) -> str:
    """A case's name without its runner."""
    return case.name.removeprefix(case.runner).strip()


def name_of(case: Judged) -> str:
    """A case's runner and name, the runner once."""
    return f"{case.runner} {short_name(case)}"


def missed_cases(first: Sequence[Judged], again: Sequence[Judged]) -> dict[str, tuple[str, str]]:
    """Cases beyond `WORST` in either: their errors."""
    errors = [{name_of(one): one.error for one in cases} for cases in (first, again)]
    return {
        name: (_error(errors[0].get(name)), _error(errors[1].get(name)))
        for name in dict.fromkeys((*errors[0], *errors[1]))
        if max(abs(side.get(name, 0)) for side in errors) > WORST
    }


def _error(found: float | None) -> str:
    return "–" if found is None else f"{found:+.1%}"


def missed_orders(
    rounds: Sequence[Sequence[Judged]], again: Sequence[Judged]
) -> dict[str, tuple[str, str]]:
    """Ladders below `WANTED` in either: their tau."""
    first = {name: one.tau for cases in rounds for name, one in orders(cases).items()}
    since = {name: one.tau for name, one in orders(again).items()}
    return {
        name: (f"tau {tau:.2f}", f"{since[name]:.2f}" if name in since else "–")
        for name, tau in first.items()
        if min(tau, since.get(name, 1)) < WANTED
    }


def _rows(missed: Mapping[str, tuple[str, str]], known: Known) -> Iterator[str]:
    for name, (before, now) in missed.items():
        state, phrase = known.get(name, (NOT_KNOWN, ""))
        yield f"| {name} | {before} | {now} | {state} | {phrase} |"


def misses(rounds: Sequence[Sequence[Judged]], again: Sequence[Judged]) -> list[str]:
    """The table of all misses; no lines where there is none."""
    cases = missed_cases([case for group in rounds for case in group], again)
    rows = [*_rows(cases, CASES), *_rows(missed_orders(rounds, again), LADDERS)]
    if not rows:
        return []
    return [
        "## Misses", "", *wrap(SAID, 96, break_on_hyphens=False), "",
        "| what | before | now | reason | which |", "|---|---|---|---|---|", *rows, "",
    ]  # fmt: skip
