"""Synchronisation of every kernel: clean under every checker, and not by luck.

The same kernel runs with asynchronous work landing at once, late, or at random; results must not
change by a bit and no checker may object. Then single waits and fences are taken out of the PTX,
and the checkers must object: a superfluous part of the protocol would be found here as well.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from testing.arguments import arguments
from testing.cases import BF16, FP8, FP16, Case, dense
from testing.runner import checked, spec_of
from testing.watchers import ONE_RANDOM, check_schedules, objections
from tests.kernel.random_cases import also

one_q, pair_cta = partial(dense, num_qo=1), partial(dense, pair_cta=True)
LATE = {"mode": "late"}
QUICK = one_q(128, 100, 128)
MORE = [
    dense(300, 520, 128, growth=0.02),
    one_q(133, 777, 128, causal=True),
    dense(150, 1000, 512, causal=True, growth=0.02),
    pair_cta(600, 500, 128, causal=True),
    dense(300, 400, 192, causal=True),
    one_q(128, 384, 128),
    dense(300, 500, 256, 4, 1, causal=True),
    # fp8
    dense(300, 600, 512, causal=True, dtype=FP8),
    dense(300, 600, 128, causal=True, dtype=FP8),
    # rope columns
    dense(300, 600, 192, head_dim_v=128, dtype=FP8, rope=BF16, causal=True),
    pair_cta(300, 900, 192, head_dim_v=128, causal=True),
]
WIDE = ((100, 200), (600, 300), (1, 64), (0, 10), (257, 5))
PAIR = Case(frozenset({"causal", "ragged"}), 128, heads=2, kv_heads=2, pair_cta=True, lengths=WIDE)
SEQUENCES = [
    # Scales of keys arrive with K, which is loaded a tile ahead of V where P crosses.
    *(
        Case(frozenset({"causal", "tokens"}), d, dtype=FP8, num_qo=2, lengths=((300, 600),))
        for d in (64, 96, 128)
    ),
    # Two pairs of CTAs, which take several query tiles each.
    replace(PAIR, features=PAIR.features | {"persistent", "page16"}),
]
WIDEST = [
    dense(300, 700, 64, 2, 1, causal=True),
    dense(133, 77, 128, 4, 2, causal=True),
    one_q(9, 1000, 64, 8, 1, causal=True),
    dense(300, 100, 512, causal=True),
    pair_cta(133, 277, 128, 8, 2, batch=2, causal=True),
    dense(300, 700, 64, 4, 2, causal=True, dtype=FP8),
    *(one_q(128, keys, 128) for keys in (256, 1100)),
    one_q(100, 1000, 192),
    dense(100, 600, 384, growth=0.02),
    pair_cta(200, 700, 128, causal=True),
    dense(300, 400, 192, causal=True, dtype=FP8),
    dense(300, 700, 96, causal=True, dtype=FP8),
    dense(300, 700, 192, head_dim_v=128, causal=True, dtype=FP8),
    one_q(130, 650, 128, dtype=FP8),
    dense(300, 900, 192, head_dim_v=128, causal=True),
    one_q(100, 700, 192, head_dim_v=128),
    pair_cta(300, 1500, 192, head_dim_v=128, dtype=FP8),
    pair_cta(600, 500, 128, head_dim_v=64, causal=True, dtype=FP8, rope=FP16),
    PAIR,
    replace(PAIR, features=PAIR.features | {"page16"}),
    replace(PAIR, features=PAIR.features | {"page64"}, heads=4, kv_heads=1),
    replace(PAIR, features=PAIR.features | {"page256"}, lengths=((520, 600), (40, 300))),
    replace(PAIR, features=PAIR.features | {"persistent"}),
]


@pytest.mark.parametrize(
    "case",
    [
        QUICK,
        *(pytest.param(case, marks=pytest.mark.slow) for case in (*MORE, *SEQUENCES)),
        *also(*WIDEST),
    ],
    ids=str,
)
def test_clean_right_and_the_same_in_every_schedule(case: Case) -> None:
    checked(check_schedules(arguments(case), schedules=(LATE, ONE_RANDOM), num_sms=4))


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [256, *also(512)])
def test_the_issue_order_changes_no_bit(head_dim: int) -> None:
    given = arguments(dense(150, 1000, head_dim, causal=True, growth=0.02))
    spec = spec_of(dense(150, 1000, head_dim, causal=True))
    assert isinstance(spec, Depth512Spec)
    in_turn = check_schedules(given, spec=replace(spec, look_ahead=False))
    for x, y in zip(check_schedules(given).results, in_turn.results, strict=True):
        assert x.equal(y)


Rewrite = Callable[[str], str]
ROUNDS = frozenset({"persistent"})
MUTATED = {
    "2q": dense(300, 700, 128, causal=True, growth=0.02),
    "1q": one_q(100, 700, 128, causal=True, growth=0.02),
    "1q-persistent": replace(
        one_q(300, 700, 128, 3, 3, causal=True, growth=0.02), features=ROUNDS | {"causal"}
    ),
    "pair_cta": pair_cta(600, 700, 128, causal=True, growth=0.02),
    "d512": dense(100, 1100, 512, causal=True, growth=0.02),
}
COMMON = (r"tcgen05\.wait::st\.sync\.aligned;",)
FENCE = r"fence\.proxy\.async\.shared::cta;"
"""Before what threads wrote is stored by TMA, or multiplied."""
STATEMENTS = {
    "2q": (
        FENCE,
        r"bar\.sync\s+[1-3], \d+;",
        r"cp\.async\.bulk\.wait_group\.read\s+0;",
        r"tcgen05\.dealloc[^;]*;",
    ),
    # the output of each group, the exchange of row values, the end
    "1q": (FENCE, *(rf"bar\.sync\s+{barrier}, \d+;" for barrier in (1, 2, 3, 4))),
    # the exchange of row values, the end
    "1q-persistent": tuple(rf"bar\.sync\s+{barrier}, \d+;" for barrier in (3, 4)),
    "pair_cta": (
        FENCE,
        r"barrier\.cluster\.wait[^;]*;",
        r"tcgen05\.dealloc[^;]*;",
        r"fence\.mbarrier_init\.release\.cluster;",
    ),
    "d512": (
        FENCE,
        r"bar\.sync\s+\d+, \d+;",
        r"bar\.sync\s+%r\d+, 64;",
        r"cp\.async\.bulk\.wait_group\.read\s+0;",
        r"barrier\.cluster\.arrive\.relaxed\.aligned;\s*barrier\.cluster\.wait;",
        r"tcgen05\.dealloc[^;]*;",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "statement"),
    [(kernel, found) for kernel, own in STATEMENTS.items() for found in (*COMMON, *own)],
)
def test_missing_statements_are_noticed(kernel: str, statement: str) -> None:
    def without(ptx: str) -> str:
        changed, count = re.subn(statement, "", ptx)
        assert count
        return changed

    given = arguments(MUTATED[kernel])
    assert any(objections(given, without, **options) for options in (ONE_RANDOM, LATE))


WAIT = re.compile(r"\{[^{}]*?\b(?:LAB_WAIT|WAIT_FOR_PHASE):.*?\}", re.DOTALL)
COUNTS = {
    "1q": (MUTATED["1q"], one_q(100, 600, 128, causal=True), one_q(100, 100, 128)),
    "1q-persistent": (
        MUTATED["1q-persistent"],
        replace(MUTATED["1q-persistent"], lengths=((300, 100),), features=ROUNDS),
    ),
}
"""An even and an odd number of key tiles, and one."""
IMPLIED_WAITS = {"1q": 2, "1q-persistent": 11}
"""Each group waits for the other's last P V, which the exchange of row values implies. A persistent
CTA waits for the first part of the K that precedes its next Q, which the wait for the second
implies, and at its end for all slots of its rings, of which the newest commit implies the others.
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kernel", MUTATED)
def test_every_wait_is_needed(kernel: str) -> None:
    """Also those whose event follows from another one: a phase that nobody waits for is reported
    when the next one begins. Commits may reach the other CTA of a pair after later ones have."""
    total, unnoticed, index = 1, [], 0

    def without(ptx: str) -> str:
        nonlocal total
        spans = [match.span() for match in WAIT.finditer(ptx)]
        total = len(spans)
        start, end = spans[index]
        return ptx[:start] + ptx[end:]

    while index < total:
        cases = COUNTS.get(kernel, (MUTATED[kernel],))
        if not any(objections(arguments(case), without) for case in cases):
            unnoticed.append(index)
        index += 1
    assert total > 20
    assert len(unnoticed) == IMPLIED_WAITS.get(kernel, 0), unnoticed
