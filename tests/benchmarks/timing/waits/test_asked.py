"""Rewritten kernels are right, and the machine says when each of their warps waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")
pytest.importorskip("triton")

from benchmarks.timing.waits.asked import CTAS, every
from benchmarks.timing.waits.cases import WAITED
from benchmarks.timing.waits.records import BEGIN, END

CODE = """
import json, sys
from dataclasses import replace
from benchmarks.timing.judges.cases import COPIED
from benchmarks.timing.judges.problems import Product
from benchmarks.timing.judges.launches import begin
from benchmarks.timing.waits.asked import ask, machine
from benchmarks.timing.waits.cases import WAITED

begin()
case = next(c for c in WAITED if sys.argv[1] in c.name)
if case.family == COPIED:
    case = replace(case, problem=Product(128, 128, 512))
asked = ask(case)
t = asked.tensors
for name in "ab":
    if name in t:
        t[name].normal_()
waits = machine(asked)
out = t["out"][:128] if case.family == COPIED else t["out"][0, :128, 0]
if case.family == COPIED:
    expected = case.problem.expected(t)
else:
    q, k, v = (t[name][0, :, 0].float() for name in "qkv")
    expected = (q[:128] @ k.T * q.shape[-1] ** -0.5).softmax(-1) @ v
error = float((out.float() - expected).norm() / expected.norm())
print(json.dumps({"error": error, "waits": waits, "sites": asked.sites}))
"""


def said(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, name], capture_output=True, text=True,
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_name_is_one_case() -> None:
    assert len({case.name for case in WAITED}) == len(WAITED) == 24


def test_values_may_have_other_columns() -> None:
    uneven = next(case for case in WAITED if case.name == "FA4 d192_128-2048-causal as shipped")
    shapes = uneven.shapes()
    assert shapes["k"] == (8, 2048, 10, 192)
    assert shapes["v"] == shapes["out"] == (8, 2048, 10, 128)


@pytest.mark.parametrize("ctas", [1, 132, 264, 1280, 2048, 4096])
def test_an_odd_number_lies_between_two_that_write(ctas: int) -> None:
    """So that of 2 to 16 query tiles of a head each writes."""
    assert every(ctas) % 2
    assert -(-ctas // every(ctas)) >= min(ctas, CTAS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kinds", "fewest"),
    [("boxes 4096x4096x4096 128 × 128, 2 stages", {"mbarrier", "products", "bulk copies"}, 8),
     ("fewer consumers", {"mbarrier", "products", "bulk copies", "barrier"}, 16)],
)  # fmt: skip
def test_a_rewritten_kernel(name: str, kinds: set[str], fewest: int) -> None:
    """A wait for each step at least, one after the other, each of some cycles."""
    found = said(name)
    assert found["error"] < 1e-2
    assert {site["kind"] for site in found["sites"]} == kinds
    for warp in found["waits"]:
        assert (warp[0][0], warp[-1][0]) == (BEGIN, END)
        inner = warp[1:-1]
        assert all(took > 0 for _, _, took in inner)
        assert all(b[1] >= a[1] + a[2] for a, b in zip(inner, warp[2:], strict=True))
    assert max(len(warp) for warp in found["waits"]) > 2 * fewest
