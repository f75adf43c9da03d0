"""Pictures and runs of the CTA-pair kernel, all drawn from its plan."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from examples.attention_timeline import warps_of
from fa4_cute.host.ask.problem import Problem
from fa4_cute.plan.barriers.barrier_spec import BarrierSpec
from fa4_cute.plan.barriers.depth512_mbars import Depth512MBarsLayout
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.regions import Region
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from sm100sim import profile
from sm100sim.timing.profile import KernelProfile
from testing.arguments import Arguments
from testing.runner import Outcome, call

LEADER, PEER = "leader", "peer"
HEIGHTS = {"softmax": 5.0, "correction": 1.0, "load": -3.0}
PLACES = {(LEADER, role): (0.0, height) for role, height in HEIGHTS.items()}
PLACES |= {(PEER, role): (10.0, height) for role, height in HEIGHTS.items()}
PLACES[LEADER, "mma"] = (5.0, 1.0)
COLOURS = ("#4878a8", "#c0504d", "#6a9f58", "#d99a2b", "#8064a2", "#3f8f8b")
Node = tuple[str, str]


def run(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, look_ahead: bool
) -> tuple[torch.Tensor, KernelProfile, Depth512Spec]:
    """Run full attention by the pair kernel in one of its issue orders, and profile it.

    Returns:
        O, the predicted profile of the pair, and the kernel's specification.
    """
    given = Arguments(q, k, v)
    problem = Problem.from_tensors(q, k, v)
    spec = Depth512Spec.for_attention(
        DType(problem.dtype), problem.head_dim, group=problem.group, return_lse=True,
        look_ahead=look_ahead,
    )  # fmt: skip
    outcomes: list[Outcome] = []
    (found,) = profile(lambda: outcomes.append(call(given, spec=spec)), roles=warps_of(spec))
    return outcomes[0].out, found, spec


def overlap(found: KernelProfile) -> dict[str, float]:
    """Return predicted cycles, the tensor cores' share of them, and that of the softmax's waits."""
    softmax = next(role for role in found.roles if role.name == "softmax")
    return {
        "cycles": found.cycles,
        "tensor cores busy": found.use("tensor"),
        "softmax waits": softmax.share("mbarrier"),
    }


def edges(mbars: Depth512MBarsLayout) -> Iterator[tuple[Node, Node, str]]:
    """Yield (arriving role, waiting role, label) for every barrier of the plan, both CTAs."""
    for barrier in mbars.specs:
        ring = re.match(r"KV_(full|empty)\[(\d+)\]", barrier.name)
        if ring and ring[2] != "0":
            continue
        name = f"KV_{ring[1]}[0..{mbars.num_kv_stages - 1}]" if ring else barrier.name
        for source, target, count in _ends(barrier):
            yield source, target, f"{name} {count}"


def _ends(barrier: BarrierSpec) -> Iterator[tuple[Node, Node, str]]:
    waiters = barrier.waits.split(", ")
    for arrival in barrier.arrivals:
        role = arrival.who.split()[0]
        for cta in (LEADER, PEER):
            for waiter in waiters:
                if role == "mma":
                    yield (LEADER, "mma"), (cta, waiter), "(commit)"
                elif waiter == "mma":
                    share = "bytes" if role == "load" else f"+{arrival.count // 2}"
                    yield (cta, role), (LEADER, "mma"), f"({share})"
                else:
                    yield (cta, role), (cta, waiter), f"(+{arrival.count})"


def draw_barriers(config: Depth512Config) -> Figure:
    """Draw who signals whom, with the arrivals of each side: one arrow per pair of roles."""
    labels: dict[tuple[Node, Node], list[str]] = defaultdict(list)
    for source, target, label in edges(config.misc_mbars):
        labels[source, target].append(label)
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    axes = figure.add_subplot()
    for (source, target), lines in labels.items():
        _arrow(axes, PLACES[source], PLACES[target], "\n".join(lines))
    for (cta, role), (x, y) in PLACES.items():
        axes.text(
            x, y, f"{role}\n{cta}", ha="center", va="center", fontsize=10,
            bbox={"boxstyle": "round,pad=0.5", "fc": "#e8eef5", "ec": "#4878a8"},
        )  # fmt: skip
    axes.set_xlim(-1.2, 11.2)
    axes.set_ylim(-3.8, 5.8)
    axes.axis("off")
    counts = {b.name: b.count for b in config.misc_mbars.specs if b.count > 1}
    text = ", ".join(f"{name} {count}" for name, count in counts.items())
    axes.set_title(f"head dim {config.padded_depth}: arrivals that complete a phase: {text}")
    return figure


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    bend = 0.16
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=14,
            shrinkA=34, shrinkB=34, color="#555555",
        )
    )  # fmt: skip
    dx, dy = end[0] - start[0], end[1] - start[1]
    # A point of the arc nearer to the outer end, where the arrows lie apart.
    along = 0.5 if dx == 0 else 0.44 if abs(start[0] - 5) > 1 else 0.56
    rise = 2 * bend * along * (1 - along)
    x, y = start[0] + along * dx + rise * dy, start[1] + along * dy - rise * dx
    side = "center" if dx else "left" if rise * dy > 0 else "right"
    colour = "#c0504d" if "commit" in label else "#333333"
    axes.text(
        x, y, label, ha=side, va="center", fontsize=7, color=colour,
        bbox={"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.85},
    )  # fmt: skip


def draw_regions(maps: Sequence[tuple[str, Sequence[Region]]], unit: str) -> Figure:
    """Draw memory maps below one another, each as a bar of named regions."""
    figure = Figure(figsize=(13, 0.9 * len(maps) + 0.7), layout="constrained")
    axes = figure.add_subplot()
    total = max(region.end for _, regions in maps for region in regions)
    for row, (_, regions) in enumerate(maps):
        for i, region in enumerate(regions):
            colour = COLOURS[i % len(COLOURS)]
            axes.add_patch(Rectangle((region.start, row - 0.35), region.size, 0.7, fc=colour))
            if region.size > total / 40:
                axes.text(
                    region.start + region.size / 2, row, region.name,
                    ha="center", va="center", color="white", fontsize=9,
                )  # fmt: skip
    axes.set_yticks(range(len(maps)), [name for name, _ in maps])
    axes.set_ylim(len(maps) - 0.5, -0.5)
    axes.set_xlim(0, total)
    axes.set_xlabel(unit)
    return figure


def owners(config: Depth512Config) -> list[dict[str, Any]]:
    """Return what each CTA holds of one work tile, as rows of a table."""
    table = []
    for rank, cta in enumerate((LEADER, PEER)):
        columns = [config.v_column(rank, part) for part in range(config.num_o_blocks)]
        width = config.v_cols_per_cta()
        first_row, first_key = rank * config.BM, rank * config.k_rows_per_cta()
        table.append(
            {
                "CTA": cta,
                "Q, P, O rows": f"{first_row}..{first_row + config.BM - 1}",
                "K rows (keys)": f"{first_key}..{first_key + config.k_rows_per_cta() - 1}",
                "V keys": f"all {config.BN}",
                "V columns": ", ".join(f"{c}..{c + width - 1}" for c in columns),
                "issues MMAs": "yes" if rank == 0 else "no",
            }
        )
    return table


def as_text(table: Sequence[dict[str, Any]]) -> str:
    """Return rows of equal keys as an aligned text table."""
    names = list(table[0])
    rows = [names] + [[str(row[name]) for name in names] for row in table]
    widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
    padded = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)
