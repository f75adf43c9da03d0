"""The whole way on one machine: attention by the Blackwell kernel on the virtual SM100.

Run it with ``make demo`` or ``python -m examples.demo [--out DIR]``. It compiles the kernels with
CuTe DSL (or takes them from the cache), executes their PTX, compares with float64, and draws the
timeline of one work tile.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import torch

import fa4_cute
from examples.attention_timeline import draw_attention
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.reference.attention import compare

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One call: sizes as in (batch, seqlen, heads, head_dim)."""

    title: str
    seqlen_q: int
    seqlen_k: int
    heads: tuple[int, int] = (1, 1)
    head_dim: int = 128
    batch: int = 1
    causal: bool = False

    def inputs(self) -> Tensors:
        """Return bfloat16 normal deviates."""
        generator = torch.Generator().manual_seed(0)
        shape_q = (self.batch, self.seqlen_q, self.heads[0], self.head_dim)
        shape_k = (self.batch, self.seqlen_k, self.heads[1], self.head_dim)
        q, k, v = (
            torch.randn(s, generator=generator).bfloat16() for s in (shape_q, shape_k, shape_k)
        )
        return q, k, v


MAIN = Case("one head, 1024 x 1024, head dim 128, full", 1024, 1024)
CASES = (
    MAIN,
    Case("causal GQA 8:2, ragged lengths, head dim 128", 200, 333, (8, 2), causal=True),
    Case("causal MHA, head dim 64, batch 2", 250, 250, (2, 2), head_dim=64, batch=2, causal=True),
    Case("causal GQA 4:1, head dim 512 on a CTA pair", 100, 300, (4, 1), 512, causal=True),
)


def run(case: Case) -> AttentionSpec:
    """Run one case, print what happened, and return the kernel's specification.

    Raises:
        testing.reference.attention.ResultError: the result is wrong.
    """
    q, k, v = case.inputs()
    print(f"\n== {case.title}")
    print(f"q {tuple(q.shape)}, k and v {tuple(k.shape)}, {q.dtype}, causal={case.causal}")
    print(fa4_cute.explain(q, k, v, causal=case.causal, return_lse=True))
    problem = Problem.from_tensors(q, k, v, causal=case.causal, return_lse=True)
    choice: Choice = require(choose(problem))
    prepared = seconds_of_first_use(choice.spec)
    start = time.perf_counter()
    out, lse = fa4_cute.flash_attn(q, k, v, causal=case.causal, return_lse=True)
    spent = time.perf_counter() - start
    report = fa4_cute.last_report()
    assert report is not None
    print(f"kernel ready after {prepared:.2f} s; call took {spent:.3f} s")
    print(report.summary())
    print(compare(out, lse, (q, k, v), causal=case.causal).check())
    return choice.spec


def seconds_of_first_use(spec: AttentionSpec) -> float:
    """Compile the kernel or load it from the cache, and return how long that took."""
    from fa4_cute.host.compile.cache import compiled

    start = time.perf_counter()
    compiled(spec)
    return time.perf_counter() - start


def draw_tile(case: Case, spec: KernelSpec, path: Path) -> None:
    """Trace the first work tile of ``case`` and draw it."""
    q, k, v = case.inputs()
    with fa4_cute.simulator_options(trace_cluster=0):
        fa4_cute.flash_attn(q, k, v, causal=case.causal, return_lse=True)
    report = fa4_cute.last_report()
    assert report is not None
    draw_attention(report, spec, path, f"one work tile: {case.title}")


def main() -> None:
    """Run all cases and draw the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory of the picture")
    arguments = parser.parse_args()
    specs = {case.title: run(case) for case in CASES}
    picture = arguments.out / "timeline.png"
    main_spec = specs[MAIN.title]
    assert isinstance(main_spec, KernelSpec)
    draw_tile(MAIN, main_spec, picture)
    info = fa4_cute.cache_info()
    print(f"\n{info.compiles} kernels compiled, {info.disk_hits} from {info.directory}")
    print(f"timeline of one work tile: {picture}")


if __name__ == "__main__":
    main()
