"""The whole way on one machine: attention by the Blackwell kernel on the virtual SM100.

Run it with ``make demo`` or ``python -m examples.demo [--out DIR]``. It compiles the kernels with
CuTe DSL (or takes them from the cache), executes their PTX, compares with float64, and draws the
predicted timeline of one work tile.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import fa4_cute
import sm100sim
from examples.attention_timeline import draw_profile, warps_of
from fa4_cute.host.ask.arguments import options_and_batch
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.support import Choice, choose, require
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from sm100sim.timing.profile import KernelProfile, profile_text
from testing.arguments import arguments
from testing.cases import dense
from testing.reference.attention import compare

sized = partial(dense, num_qo=None, num_splits=None)
"""Cases for which the call itself chooses Q tiles and splits."""
CASES = {
    "one head, 1024 x 1024, head dim 128, full": sized(1024, 1024, 128),
    "causal GQA 8:2, ragged lengths, head dim 128": sized(200, 333, 128, 8, 2, causal=True),
    "causal MHA, head dim 64, batch 2": sized(250, 250, 64, 2, 2, batch=2, causal=True),
    "causal GQA 4:1, head dim 512 on a CTA pair": sized(100, 300, 512, 4, 1, causal=True),
}
PICTURE = "one head, 256 x 1024, head dim 128: two Q tiles of a CTA"
PICTURED = dense(256, 1024, 128)


def run(title: str) -> None:
    """Run one case and print what happened.

    Raises:
        testing.reference.attention.ResultError: the result is wrong.
    """
    given = arguments(CASES[title])
    q, k, v = given.inputs
    options = {"causal": False, "return_lse": True, **given.options}
    print(f"\n== {title}")
    print(f"q {tuple(q.shape)}, k and v {tuple(k.shape)}, {q.dtype}, causal={options['causal']}")
    print(fa4_cute.explain(q, k, v, **options))
    problem = Problem.from_tensors(q, k, v, **options)
    choice: Choice = require(choose(problem))
    prepared = seconds_of_first_use(choice.spec)
    start = time.perf_counter()
    out, lse = fa4_cute.flash_attn(q, k, v, **options)
    spent = time.perf_counter() - start
    report = fa4_cute.last_report()
    assert report is not None
    print(f"kernel ready after {prepared:.2f} s; call took {spent:.3f} s")
    print(report.summary())
    print(compare(out, lse, (q, k, v), **given.options).check())


def seconds_of_first_use(spec: AttentionSpec) -> float:
    """Compile the kernel or load it from the cache, and return how long that took.

    The simulator's engine, which a machine compiles once, belongs to neither time.
    """
    from fa4_cute.host.compile.cache import compiled
    from sm100sim.engine.binding import load_engine

    load_engine()
    start = time.perf_counter()
    compiled(spec)
    return time.perf_counter() - start


def draw_tile(path: Path) -> KernelProfile:
    """Predict one work tile on a B200 and draw it."""
    given = arguments(PICTURED)
    q, k, v = given.inputs
    options = {"return_lse": True, **given.options}
    asked = request((q, k, v), *options_and_batch(options)).problem
    spec = require(choose(asked)).spec
    (found,) = sm100sim.profile(
        lambda: fa4_cute.flash_attn(q, k, v, **options), "b200", roles=warps_of(spec)
    )
    draw_profile(found, spec, path, f"one work tile, predicted: {PICTURE}")
    return found


def main() -> None:
    """Run all cases and draw a tile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory of the picture")
    arguments = parser.parse_args()
    for title in CASES:
        run(title)
    picture = arguments.out / "timeline.png"
    found = draw_tile(picture)
    info = fa4_cute.cache_info()
    print(f"\n{info.compiles} kernels compiled, {info.disk_hits} from {info.directory}")
    print(f"\n== {PICTURE}\n{profile_text(found, most=3)}")
    print(f"timeline of one work tile: {picture}")


if __name__ == "__main__":
    main()
