"""The page of one measurement: what was measured, on what, and ratios to the best rival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import geometric_mean, median
from typing import Any, Final

from benchmarks.hopper.times.problems import Problem

OURS: Final = "fa4_cute"
Row = Mapping[str, Any]
TITLES: Final = {
    "full": "All keys and causal, batch × length = 16,384 tokens (32,768 at the longest)",
    "gqa": "Eight heads of keys for 32 of queries",
    "fp8": "e4m3 operands, bf16 output",
    "window": "A causal window of 1,024 keys",
    "windows": "Other head dims and windows",
    "softcap": "Scores capped at 50 (`softcap`), causal",
    "alibi": "A slope for each head (ALiBi)",
    "bias": "A bf16 bias of (heads, queries, keys) that all sequences share",
    "sink": "A sink for each head, causal",
    "packed": "Packed sequences (`cu_seqlens`), causal",
    "decode": "One query per sequence over a dense cache",
    "paged": "One query per sequence over a paged cache",
    "layers": "Layers of language models: prompts",
    "encoders": "Layers of encoders and of diffusion models",
    "steps": "Layers of language models: a step of decoding over pages",
}


def rate(problem: Problem, milliseconds: float) -> float:
    """TFLOPS, or GB/s where memory bounds the problem."""
    if problem.by_bandwidth:
        return problem.bytes() / milliseconds / 1e6
    return problem.flops() / milliseconds / 1e9


def ratio(row: Row) -> float | None:
    """Time of the fastest rival over ours: above 1 this package is faster. None without both."""
    times = {name: found["ms"] for name, found in row["results"].items()}
    ours = times.pop(OURS, None)
    return min(times.values()) / ours if ours and times else None


def _cell(row: Row, problem: Problem, runner: str) -> str:
    found = row["results"].get(runner)
    if found is None:
        return "no kernel" if runner == OURS else "–"
    digits = f"{rate(problem, found['ms']):,.0f}"
    return digits + ("*" if found.get("note") else "")


def _mask(problem: Problem) -> str:
    if problem.window is not None and problem.group != "window":
        return f"a window of {problem.window + 1:,}"
    return "causal" if problem.causal else "all"


def _line(row: Row, runners: Sequence[str], copy: float) -> str:
    problem = Problem(**row["problem"])
    dims = str(problem.head_dim)
    dims += f"/{problem.head_dim_v}" if problem.head_dim_v != problem.head_dim else ""
    what = [dims, _mask(problem), f"{problem.seqlen_k:,}", str(problem.batch)]
    if problem.layer:
        what[0] = f"{problem.layer}: {problem.heads}/{problem.heads_kv} heads of {dims}"
    if problem.page:
        what[1] = f"pages of {problem.page}"
    cells = [_cell(row, problem, runner) for runner in runners]
    gained = ratio(row)
    tail = ["" if gained is None else f"{gained:.2f}"]
    if problem.by_bandwidth:
        ours = row["results"].get(OURS)
        tail.append(f"{rate(problem, ours['ms']) / copy:.0%}" if ours and copy else "")
    clock = row["clocks"].get("sm_mhz")
    return f"| {' | '.join([*what, *cells, *tail, '' if clock is None else f'{clock:.0f}'])} |"


def _table(group: str, rows: Sequence[Row], copy: float) -> list[str]:
    problem = Problem(**rows[0]["problem"])
    runners = [OURS, *sorted({r for row in rows for r in row["results"]} - {OURS})]
    unit = "GB/s" if problem.by_bandwidth else "TFLOPS"
    tail = ["× best rival", *(["of a copy"] if problem.by_bandwidth else []), "SM MHz"]
    head = ["head dim", "keys", "length", "batch", *runners, *tail]
    lines = [f"## {TITLES[group]}", "", unit + ":", "", f"| {' | '.join(head)} |"]
    lines.append("|" + "---|" * len(head))
    lines += [_line(row, runners, copy) for row in rows]
    found = [gained for row in rows if (gained := ratio(row)) is not None]
    if found:
        lines += ["", f"Geometric mean {geometric_mean(found):.3f}, lowest {min(found):.3f}."]
    return [*lines, ""]


def host_costs(rows: Iterable[Row]) -> list[str]:
    """What a call costs on the host, the median over problems, one line for each runner."""
    costs: dict[str, list[float]] = {}
    for row in rows:
        for runner, found in row["results"].items():
            if found.get("host_us") is not None:
                costs.setdefault(runner, []).append(found["host_us"])
    return [f"* {runner}: {median(found):.1f} µs" for runner, found in sorted(costs.items())]


def refusals(rows: Iterable[Row]) -> list[str]:
    """Why a runner has no figure, each reason once with the number of problems."""
    count: dict[tuple[str, str], int] = {}
    for row in rows:
        for runner, reason in row["refused"].items():
            count[runner, reason] = count.get((runner, reason), 0) + 1
    return [
        f"* {runner}, {number} problems: {reason}"
        for (runner, reason), number in sorted(count.items())
    ]


def render(found: Mapping[str, Any]) -> str:
    """The page of a measurement, as ``attention_times.py`` stores it."""
    card, copy = found["card"], found["copy_gb_s"]
    versions = ", ".join(f"{name} {value}" for name, value in sorted(found["versions"].items()))
    state = "overwritten before each run" if found["cold"] else "as the run before left it"
    lines = [
        f"# Attention on {card.get('name', 'a GPU without nvidia-smi')}",
        "",
        f"Driver {card.get('driver_version', 'unknown')}; {versions}.",
        f"Clocks as found, at most {card.get('clocks.max.sm', 'unknown')}, limit "
        f"{card.get('power.limit', 'unknown')}; the last column is the median while the row ran.",
        f"Median of {found['rounds']} runs, each the replay of a CUDA graph of one call between",
        f"two events; the runners take turns. L2: {state}.",
        f"A copy from device to device moves {copy:,.0f} GB/s, bytes read and bytes written.",
        "Masked pairs are no operations. A figure with * was taken without a graph.",
        "",
    ]
    for group, rows in groupby(found["rows"], key=lambda row: row["problem"]["group"]):
        lines += _table(group, list(rows), copy)
    if costs := host_costs(found["rows"]):
        lines += ["## A call on the host, without the GPU's time", "", *costs, ""]
    reasons = refusals(found["rows"])
    if reasons:
        lines += ["## Without a figure", "", *reasons, ""]
    return "\n".join(lines)
