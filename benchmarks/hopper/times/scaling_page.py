"""The page about several GPUs, from what ``benchmarks.hopper.scaling`` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]
METHODS: Final = {"ring": "ring", "all_gather": "all-gather"}
TARGET: Final = 0.9
"""Efficiency that is aimed at, on so many GPUs."""
FOUR: Final = 4


def efficiency(alone_ms: float, together_ms: float, ranks: int) -> float:
    """Return which share of ``ranks`` times one GPU's speed they reach together."""
    return alone_ms / (ranks * together_ms)


def rate(flops: int, ms: float, ranks: int) -> float:
    """Return TFLOPS of each of ``ranks`` GPUs."""
    return flops / ms / ranks / 1e9


def _times(rows: Sequence[Row]) -> dict[tuple[int, str, str, int], Row]:
    return {(row["tokens"], row["mask"], row["method"], row["ranks"]): row for row in rows}


def scaling_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of times, one for each problem and method."""
    found = _times(rows)
    several = sorted({row["ranks"] for row in rows} - {1})
    head = ["tokens", "keys", "method", "1 GPU, ms", "TFLOPS"]
    for ranks in several:
        head += [f"{ranks} GPUs, ms", "TFLOPS each", "efficiency"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for (tokens, mask, method, ranks), alone in sorted(found.items()):
        if ranks != 1:
            continue
        cells = [f"{tokens:,}", mask, METHODS[method]]
        cells += [f"{alone['ms']:.2f}", f"{rate(alone['flops'], alone['ms'], 1):.0f}"]
        for count in several:
            row = found.get((tokens, mask, method, count))
            if row is None:
                cells += ["–"] * 3
                continue
            share = efficiency(alone["ms"], row["ms"], count)
            each = rate(row["flops"], row["ms"], count)
            cells += [f"{row['ms']:.2f}", f"{each:.0f}", f"{share:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def below_target(rows: Sequence[Row]) -> list[str]:
    """Return in words which problems on four GPUs miss the target, and by how much."""
    found, missed = _times(rows), []
    for (tokens, mask, method, count), row in sorted(found.items()):
        alone = found.get((tokens, mask, method, 1))
        if count != FOUR or alone is None:
            continue
        share = efficiency(alone["ms"], row["ms"], FOUR)
        if share < TARGET:
            missed.append(f"{tokens:,} tokens, {mask}, {METHODS[method]}: {share:.1%}")
    return missed


def overlap_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of profiles: of each problem the rank that took longest."""
    head = ["tokens", "keys", "method", "GPUs", "call", "attention", "NCCL", "of it hidden",
            "other kernels", "nothing runs"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        times = max(row["timelines"], key=lambda one: float(one["span"]))
        hidden = times["hidden"] / times["transfer"] if times["transfer"] else 1.0
        cells = [f"{row['tokens']:,}", row["mask"], METHODS[row["method"]], str(row["ranks"])]
        cells += [f"{times[name]:.2f}" for name in ("span", "attention", "transfer")]
        cells += [f"{hidden:.0%}", f"{times['other']:.2f}", f"{times['idle']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def render(found: Mapping[str, Any]) -> str:
    """Return the page of a measurement."""
    card, shape = found["card"], found["shape"]
    versions = ", ".join(f"{name} {value}" for name, value in sorted(found["versions"].items()))
    four = any(row["ranks"] == FOUR for row in found["rows"])
    missed = below_target(found["rows"])
    verdict = "below it:" if missed else "all of these reach it."
    gap = max((row["gap"] for row in found["rows"]), default=0.0)
    lines = [
        f"# Several GPUs: {card.get('name', 'without nvidia-smi')}",
        "",
        f"Measured on {found['day']} by `python -m benchmarks.hopper.scaling`: one sequence, "
        f"{shape['heads']} query and",
        f"{shape['heads_kv']} key/value heads of {shape['head_dim']} in bfloat16, zigzag layout, "
        "`context_parallel_attn` with",
        "`unchecked=True`. [distributed.md](distributed.md) says what the ranks do.",
        "",
        f"Driver {card.get('driver_version', 'unknown')}; {versions}. NVLink multicast off; NCCL's "
        f"streams have {found.get('priority', 'normal')} priority.",
        f"Clocks as found, at most {card.get('clocks.max.sm', 'unknown')}; median of "
        f"{found['rounds']} calls in a row, of the rank that took longest.",
        "Masked pairs are no operations. One GPU is a plain `flash_attn` of the whole sequence.",
        "",
        *scaling_table(found["rows"]),
        "",
        f"The O of rank 0 is at most {gap:.1e} from that of one GPU. The target is an efficiency "
        f"of {TARGET:.0%} on four GPUs; "
        + (verdict if four else "on four nothing was measured."),
        *(["", *(f"* {line}" for line in missed)] if missed else []),
        "",
    ]  # fmt: skip
    if found["profiles"]:
        lines += [
            "## What runs at the same time",
            "",
            f"`torch.profiler` on all ranks, {found['profiled_calls']} calls in a row; figures are",
            "milliseconds of one call on the rank that took longest. A kernel of NCCL also waits",
            "for its peer; hidden is what lies under attention. Other kernels pack, copy and join.",
            "",
            *overlap_table(found["profiles"]),
            "",
        ]
    return "\n".join(lines)
