"""Synchronisation of the compiled kernel: clean under every watcher, and not by luck.

The same kernel runs with asynchronous work landing at once, late, or at random; results must not
change by a bit and no watcher may object. Then single waits and fences are taken out of the PTX,
and the watchers must object: a superfluous part of the protocol would be found here as well.
"""

import re

import pytest

from tests.kernel import watchers
from tests.kernel.attention_case import Case, inputs, run_kernel

CASES = [
    Case(300, 700, 64, heads=2, causal=True),
    Case(300, 520, 128),
    Case(133, 77, 128, heads=4, kv_heads=2, causal=True),
    Case(300, 400, 192, causal=True),
]
MUTATED = Case(300, 700, 128, causal=True)
WAIT = re.compile(r"\{\s*\.reg \.pred done;\s*WAIT_FOR_PHASE:.*?PHASE_DONE:\s*\}", re.DOTALL)


def objections(case: Case, rewrite=str) -> int:
    """Run under all watchers in a random order; returns the number of findings."""
    operands = inputs(case)
    options = {"mode": "random", "seed": 3}
    return watchers.objections(lambda: run_kernel(case, *operands, rewrite=rewrite), **options)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_watcher_objects(case: Case) -> None:
    assert objections(case) == 0


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_results_do_not_depend_on_timing(case: Case) -> None:
    operands = inputs(case)
    watchers.check_schedules(lambda: run_kernel(case, *operands))


@pytest.mark.parametrize(
    "statement",
    [
        r"tcgen05\.wait::st\.sync\.aligned;",
        r"fence\.proxy\.async\.shared::cta;",
        r"bar\.sync [1-3], \d+;",
        r"cp\.async\.bulk\.wait_group 0;",
        r"tcgen05\.dealloc[^;]*;",
    ],
)
def test_missing_statements_are_noticed(statement: str) -> None:
    assert objections(MUTATED, lambda ptx: re.sub(statement, "", ptx)) > 0


@pytest.mark.slow
def test_every_wait_is_noticed_when_it_is_missing() -> None:
    """Also the four whose event follows from another one: a phase that nobody waits for is reported
    when the next one begins."""
    unnoticed = 0
    total = 0

    def without(index: int):
        def rewrite(ptx: str) -> str:
            nonlocal total
            spans = [match.span() for match in WAIT.finditer(ptx)]
            total = len(spans)
            start, end = spans[index]
            return ptx[:start] + ptx[end:]

        return rewrite

    index = 0
    while index == 0 or index < total:
        unnoticed += objections(MUTATED, without(index)) == 0
        index += 1
    assert total > 20
    assert unnoticed == 0
