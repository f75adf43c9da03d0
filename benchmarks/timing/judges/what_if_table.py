"""The section of the page that says what one mechanism or one value would make of the cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any, Final

WORST, NEAR = 0.12, 0.01
TWO_STAGES: Final = ("Triton", "2 stages")
AIM: Final = "Triton attention: Triton attention d128-2048 128 × 64, 2 stages, 8 warps"
FEWER: Final = "d64-1024 fewer consumers"
TEXT: Final = """
What one mechanism or one value made of {count} cases of the first measurement, in the machine as it
was then (`python -m benchmarks.timing.judges.what_if`). Each value is moved until Triton's
attention of 128 × 64 with two stages and 8 warps takes the chip's cycles, or to the value in
brackets, which does not reach them. It said which causes the measured cycles leave possible; the
first of them was asked of a chip since, and is in the machine.
"""
HEAD: Final = (
    "| what | value | six of two stages: mean | worst | fewer consumers | other cases: mean | "
    "of these now beyond 12% |",
    "|---|---|---|---|---|---|---|",
)


def _value(change: Mapping[str, Any], error: float) -> str:
    """What a value was moved to; in brackets where the aim is still short."""
    values = ", ".join(f"{value:,.4g}" for value in change["values"].values())
    return f"({values})" if values and error < -NEAR else values


def _figures(cases: Sequence[str], first: Sequence[float], now: Sequence[float]) -> str:
    """Errors of those with two stages, of fewer consumers, and of all others."""
    two = [k for k, case in enumerate(cases) if all(part in case for part in TWO_STAGES)]
    fewer = [k for k, case in enumerate(cases) if case.endswith(FEWER)]
    others = [k for k in range(len(cases)) if k not in (*two, *fewer)]
    lost = sum(abs(first[k]) <= WORST < abs(now[k]) for k in others)
    worst = max((now[k] for k in two), key=abs)
    return (
        f"{mean(abs(now[k]) for k in two):.1%} | {worst:+.1%} | "
        f"{', '.join(f'{now[k]:+.1%}' for k in fewer)} | "
        f"{mean(abs(now[k]) for k in others):.1%} | {lost}"
    )


def section(found: Mapping[str, Any], chip: Mapping[str, float], aim: str) -> Iterator[str]:
    """Lines of the section.

    Args:
        found: of `what_if.json`. chip: cycles by case. aim: the case that values were moved for.
    """
    cases = found["cases"]
    errors = {
        name: [c / chip[case] - 1 for c, case in zip(change["cycles"], cases, strict=True)]
        for name, change in found["changes"].items()
    }
    first, at = next(iter(errors.values())), cases.index(aim)
    yield from TEXT.strip().format(count=len(cases)).split("\n")
    yield ""
    yield from HEAD
    for name, change in found["changes"].items():
        value = _value(change, errors[name][at])
        yield f"| {name} | {value} | {_figures(cases, first, errors[name])} |"
