"""Synchronisation of the CTA-pair kernel: clean under every watcher, and not by luck.

The same kernel runs with asynchronous work landing at once, late, or at random; results must not
change by a bit and no watcher may object. Then single waits and fences are taken out of the PTX,
and the watchers must object: a superfluous part of the protocol would be found here as well.
"""

import re

import pytest
import torch

from tests.kernel import watchers
from tests.kernel.artifacts import compiled
from tests.kernel.attention_case import Case, inputs
from tests.kernel.depth512_case import run_pair, spec_of

CASES = [
    Case(300, 500, 256, heads=4, kv_heads=1, causal=True),
    Case(150, 1000, 512, causal=True),
    Case(100, 600, 384),
    Case(300, 100, 512, causal=True),
]
MUTATED = Case(100, 1100, 512, causal=True)
WAIT = re.compile(r"\{[^{}]*?\b(?:LAB_WAIT|WAIT_FOR_PHASE):.*?\}", re.DOTALL)


def growing(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return operands whose maxima grow along the keys, so that O is rescaled."""
    q, k, v = inputs(case)
    factors = torch.linspace(0.1, 20, case.seqlen_k)[None, :, None, None]
    return q, (k * factors).to(k.dtype), v


def objections(case: Case, rewrite=str, *, look_ahead: bool = True) -> int:
    """Run under all watchers in a random order; returns the number of findings."""
    operands = growing(case)

    def launch() -> object:
        return run_pair(case, *operands, rewrite=rewrite, look_ahead=look_ahead)

    return watchers.objections(launch, mode="random", seed=3)


@pytest.mark.parametrize("look_ahead", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_watcher_objects(case: Case, look_ahead: bool) -> None:
    assert objections(case, look_ahead=look_ahead) == 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_depend_neither_on_timing_nor_on_the_issue_order(case: Case) -> None:
    operands = inputs(case)
    watchers.check_schedules(lambda: run_pair(case, *operands))
    at_once, _ = run_pair(case, *operands)
    in_turn, _ = run_pair(case, *operands, look_ahead=False)
    assert torch.equal(at_once, in_turn)


@pytest.mark.parametrize(
    "statement",
    [
        r"tcgen05\.wait::st\.sync\.aligned;",
        r"fence\.proxy\.async\.shared::cta;",
        r"bar\.sync\s+\d+, \d+;",
        r"bar\.sync\s+%r\d+, 64;",
        r"cp\.async\.bulk\.wait_group\s+0;",
        r"barrier\.cluster\.arrive\.aligned;\s*barrier\.cluster\.wait;",
        r"tcgen05\.dealloc[^;]*;",
    ],
)
def test_missing_statements_are_noticed(statement: str) -> None:
    assert objections(MUTATED, lambda ptx: re.sub(statement, "", ptx)) > 0


def without_wait(index: int):
    """Return a rewrite that removes wait ``index`` of the kernel."""

    def rewrite(ptx: str) -> str:
        start, end = [match.span() for match in WAIT.finditer(ptx)][index]
        return ptx[:start] + ptx[end:]

    return rewrite


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "look_ahead"), [(MUTATED, True), (Case(200, 1000, 256), False)], ids=["d512", "d256"]
)
def test_every_wait_is_needed(case: Case, look_ahead: bool) -> None:
    """The load role's last ones too: a commit may reach the other CTA after later ones have."""
    spec = spec_of(case, look_ahead=look_ahead)
    waits = len(WAIT.findall(compiled(spec).ptx))
    unnoticed = [
        index
        for index in range(waits)
        if objections(case, without_wait(index), look_ahead=look_ahead) == 0
    ]
    assert waits > 20
    assert unnoticed == []
