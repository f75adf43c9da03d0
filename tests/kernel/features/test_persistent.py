"""Persistent CTAs: every query tile is right, whatever the number of CTAs that take them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.output.join_groups import exchange_in_s
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.launch import launch
from fa4_cute.plan.launch.turns import Section
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH
from fa4_cute.work.context import KernelContext
from fa4_cute.work.progress import counted
from sm100sim.options import run_options
from testing.arguments import arguments
from testing.cases import FP8, Case, dense
from testing.launches import Described
from testing.runner import call, checked, run, spec_of
from testing.watchers import ONE_RANDOM, check_schedules, objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow


def persistent(
    sizes: tuple[int, int, int], batch: int = 2, heads: int = 2, mask: str = "causal", **more: Any
) -> Case:
    """Return a case whose maxima grow along the keys, so that O is rescaled."""
    plain = dense(*sizes, heads, heads, batch=batch, growth=0.02, **more)
    return replace(plain, features=frozenset({"persistent", *mask.split()}))


TWO_Q = persistent((300, 300, 128), batch=1)
D384 = persistent((300, 600, 384), heads=1)
D256_FP8 = persistent((500, 510, 256), heads=1, dtype=FP8)
STAGED = persistent((500, 510, 256), heads=1, mask="causal sink", dtype=FP8)
"""A sink, so that O is staged: over the ring, too."""
ONE_Q = persistent((300, 600, 128), batch=1, heads=1, num_qo=1)
"""Query tiles of three to five key tiles, so that both groups join each."""
PAIR = persistent((1100, 300, 128), heads=1, pair_cta=True)
STREAMED = replace(
    dense(100, 600, 384, 2, 2, growth=0.02), lengths=((100, 400), (100, 700)),
    features=frozenset({"stream_k", "causal", "cache"}),
)  # fmt: skip
"""By stream-K; the softmax writes O from registers, and Q is loaded once scores have read it.

Two key tiles, and three.
"""
HOPPER = persistent((500, 300, 64), arch=SM90A, num_qo=None)
GROUP = replace(
    dense(300, 300, 72, 4, 2, batch=2, growth=0.02), features=frozenset({"persistent", "causal"})
)
CASES = (
    (persistent((300, 300, 128)), 1),
    # Written row by row: heads that share a Q tile.
    (GROUP, 2),
    # One Q tile, whose groups join while the next scores are written; and one key tile to each.
    (ONE_Q, 1),
    (persistent((100, 90, 128), batch=3, mask="", num_qo=1), 1),
    # Pairs of CTAs
    (D256_FP8, 2),
    (STAGED, 2),
    # Whose place follows from two divisions: heads of several sequences.
    (persistent((600, 300, 64), heads=3, mask="", dtype=FP8), 2),
    (PAIR, 2),
    # More than two rounds of 12 query tiles, forwards and backwards, the last one not full.
    (HOPPER, 5),
)
"""Cases, and the SMs that they run on."""
MORE = (
    # Written row by row: fp8, whose O is wider than its operands.
    (persistent((300, 300, 128), dtype=FP8), 1),
    (persistent((300, 600, 128), mask="chunked", num_qo=1), 2),
    (HOPPER, 4),
    (persistent((300, 700, 128), mask="", arch=SM90A, num_qo=None, dtype=FP8), 3),
    (persistent((700, 500, 64)), 3),
    (persistent((700, 500, 48), heads=3, dtype=FP8), 3),
    (persistent((300, 300, 192), mask=""), 2),
    (persistent((600, 200, 64), num_qo=1), 1),
    # One pair for everything, and two that take an odd number of query tiles.
    (persistent((600, 300, 256), heads=1), 2),
    (persistent((300, 600, 512), heads=1), 5),
    # One key tile to a query tile, and query tiles that see no key between others.
    (persistent((600, 90, 256), heads=1), 2),
    (persistent((300, 600, 512), heads=1, mask="", dtype=FP8), 4),
    # Columns of rope: their buffers go on in turn from query tile to query tile.
    (persistent((100, 333, 192), batch=3, heads=1, head_dim_v=128, num_qo=1), 2),
    (persistent((300, 300, 200), heads=1, mask="chunked"), 1),
    (persistent((600, 600, 72), pair_cta=True), 4),
    (persistent((600, 300, 128), heads=1, pair_cta=True, dtype=FP8), 2),
    (persistent((300, 333, 192), batch=3, heads=1, head_dim_v=128), 2),
    (persistent((1100, 300, 192), batch=3, heads=1, head_dim_v=128, pair_cta=True), 2),
)


@pytest.mark.parametrize(
    ("case", "num_sms"),
    [*CASES, *also(*MORE)],
    ids=str,
)
def test_bits_are_those_of_one_tile_a_cta(case: Case, num_sms: int) -> None:
    plain = run(replace(case, features=case.features - {"persistent"}))
    found = check_schedules(
        arguments(case), num_sms=num_sms, schedules=({"mode": "late"}, ONE_RANDOM)
    )
    described = Described(case, num_sms)
    grid, size = described.packed.plan.grid, described.spec.cluster_size
    assert grid == (max(size, num_sms // size * size), 1, 1)
    assert described.packed.plan.scalars["num_work"] > grid[0] // size
    for x, y in zip(plain.results, found.results, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_bits_do_not_depend_on_how_many_heads_are_taken_together(
    heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(replace(HOPPER, features=HOPPER.features - {"persistent"}))
    monkeypatch.setattr(launch, "choose_section", lambda *_: Section(heads, 1.0))
    found = call(arguments(HOPPER), num_sms=3)
    assert all(map(torch.equal, found.results, plain.results))


def test_the_result_is_attention() -> None:
    checked(run(persistent((300, 500, 128))))


def test_more_query_tiles_than_sms_of_a_real_device() -> None:
    case = persistent((41, 5, 16), batch=41, heads=4)
    plain = call(arguments(replace(case, features=case.features - {"persistent"})))
    found = checked(call(arguments(case), num_sms=148))
    assert torch.equal(found.out, plain.out)


def free_at_once(ctx: KernelContext, chain: int) -> None:
    """Say that O may be overwritten as if what was read of it were in registers."""
    ctx.mbars.consumer_o(chain).release()


def empty_rings(num_stages: int, _used: object, *, producer: bool) -> object:
    """Return the cursor of a ring that has not been used."""
    from fa4_cute.pipelines import RingState

    return (RingState.producer if producer else RingState.consumer)(num_stages)


LOST = {
    "wait before Q is loaded": ("roles.{role}load.{wait}", lambda *_: None),
    "wait before O is overwritten": ("roles.{role}correction.wait_until_stored", lambda *_: None),
    "parity of earlier key tiles": ("work.progress.{progress}.steps_of", lambda *_: 0),
    "parity of earlier corrections": ("work.progress.Progress.corrections_of", lambda *_: 0),
    "place in the rings": ("pipelines.RingState.after", empty_rings),
    "last wait for the slots": ("roles.load.drain", lambda *_: None),
    "exchange of row values beside S": (
        "output.join_groups.exchange_in_smem", exchange_in_s,
    ),
    "wait for the row sum to be read": (
        "roles.depth512_softmax.wait_for_factor_read", lambda *_: None,
    ),
    "number of a row sum": (
        "work.context.AttentionContext.factor_step",
        lambda ctx, chain, tile: counted(tile - 1, ctx.progress.corrections_of(chain)),
    ),
    "last P V before the next": ("roles.mma.issue_last_before", lambda _: None),
    "last P in its own S": (
        "plan.spec.issue_order.IssueOrder.keeps_last", lambda *_: False,
    ),
    "wait for the last S1 to be read": (
        "operands.products.MmaIssuer.wait_for_last_reading", lambda _: None,
    ),
    "wait before O is overwritten by the next": ("roles.correction.say_free", free_at_once),
}
"""What a fault in the passage from one query tile to the next leaves out, where, and what is there
instead."""
USUAL = (
    ("number of a row sum", TWO_Q),
    ("last P V before the next", TWO_Q),
    ("last P in its own S", TWO_Q),
    ("wait for the last S1 to be read", TWO_Q),
    ("last wait for the slots", TWO_Q),
    ("place in the rings", D384),
    ("wait before Q is loaded", ONE_Q),
    ("wait before O is overwritten", ONE_Q),
    ("exchange of row values beside S", ONE_Q),
    ("wait before Q is loaded", PAIR),
    ("wait before Q is loaded", D256_FP8),
    ("number of a row sum", D384),
    ("wait for the row sum to be read", D256_FP8),
    ("wait before Q is loaded", STREAMED),
    ("wait before O is overwritten", STREAMED),
)
OF_ROWS = ("wait for the row sum to be read", "number of a row sum")
"""Where the correction role writes O, and so is told the row sum, or what O is multiplied by."""
RUNS_ON = ("last P V", "last P in", "wait for the last S1", "wait before O is overwritten by")
"""Of two Q tiles."""
STAGES = ("wait before O is overwritten", "parity of earlier corrections")
"""Of all others: threads that write O let the next P V begin, and row sums are counted with the
corrections."""


def applies(lost: str, case: Case) -> bool:
    """Return whether ``case`` has what is left out."""
    if lost.startswith(RUNS_ON):
        return case is TWO_Q
    if lost.startswith("last"):
        # A pair leaves together, when all commits have arrived: it needs no last wait.
        return case in (TWO_Q, ONE_Q)
    if lost.startswith("exchange"):
        return case is ONE_Q
    if lost == OF_ROWS[0] and case is TWO_Q:
        return False
    return lost not in (STAGES if case in (TWO_Q, D384, D256_FP8) else OF_ROWS)


ALL = (
    (lost, case) for case in (TWO_Q, ONE_Q, D384, PAIR, D256_FP8, STAGED, STREAMED)
    for lost in LOST
    if applies(lost, case)
)
LOSERS = [
    pytest.param(*row, marks=() if row in USUAL else pytest.mark.exhaustive) for row in ALL
]


def sms_of(case: Case) -> int:
    """SMs on which a CTA, or a pair of them, takes several query tiles."""
    return 1 if case in (TWO_Q, ONE_Q) else 2


def shown(case: Case) -> list[str]:
    """Compile ``case`` as it is patched now; return the first that shows that it is broken."""
    expected = call(arguments(case), num_sms=sms_of(case))
    broken = compile_kernel(spec_of(case))
    for seed in range(3):
        options: dict[str, Any] = {"mode": "random", "seed": seed}
        found = objections(arguments(case), artifact=broken, num_sms=sms_of(case), **options)
        if found:
            return found
        with run_options(**options):
            out = call(arguments(case), artifact=broken, num_sms=sms_of(case)).out
        if not torch.equal(out, expected.out):
            return ["values"]
    return []


@pytest.mark.parametrize(("lost", "case"), LOSERS, ids=str)
def test_what_keeps_query_tiles_apart_is_needed(
    lost: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator finds a kernel without it: a race, a deadlock, or other values."""
    place, instead = LOST[lost]
    role = "depth512_" if case.head_dim >= SMALLEST_DEPTH else ""
    wait = "wait_for_query_memory"
    # A mask ends the chains of two Q tiles apart; one deals its key tiles out.
    progress = {TWO_Q: "ApartProgress", ONE_Q: "DealtProgress"}.get(case, "Progress")
    call(arguments(case), num_sms=sms_of(case))  # the kernel as it should be
    place = place.format(role=role, wait=wait, progress=progress)
    if case is STAGED and place.endswith(wait):
        # O reaches into the ring: the wait is in front of the first K.
        place = "operands.loads.wait_until_stored"
    monkeypatch.setattr(f"fa4_cute.{place}", instead)
    assert shown(case)
