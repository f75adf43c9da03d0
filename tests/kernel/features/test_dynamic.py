"""The dynamic scheduler: bits are those of any other, and what keeps answers apart is needed.

In the simulator the first CTA, or pair, runs until it waits for another, and so takes over all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

from fa4_cute.host.ask import request
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.pipelines import RolePipeline
from fa4_cute.plan.launch import launch
from fa4_cute.plan.spec.variant import KEPT, Scheduler
from fa4_cute.sync.blocks import BarrierBlock
from sm100sim.options import RunOptions
from testing.arguments import arguments
from testing.cases import FP8, Case
from testing.launches import Described, Launch
from testing.runner import SMS, asked_by, checked, run, spec_of
from testing.watchers import ONE_RANDOM, check_schedules, objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

MIXED = ((300, 500), (0, 20), (40, 90), (257, 640))


def dynamic(features: str, head_dim: int, **more: Any) -> Case:
    """Return a case of mixed lengths, in which the scheduler is dynamic, and keys are whole unless
    a feature says otherwise."""
    given = {"heads": 2, "kv_heads": 1, "lengths": MIXED, "sharpness": 2.0, **more}
    if "split" not in features:
        given["num_splits"] = 1
    return Case(frozenset({"dynamic", *features.split()}), head_dim, **given)


TWO_Q = dynamic("ragged causal", 128, num_qo=2)
QUICK = dynamic("causal", 64, num_qo=2, heads=1, lengths=((600, 300),))
PAIR = dynamic("ragged causal", 128, pair_cta=True, lengths=((600, 700), (0, 20), (40, 90)))
D256 = dynamic("ragged causal", 256, heads=1)
MLA = dynamic(
    "ragged causal", 192, num_qo=2, head_dim_v=128, lengths=MIXED[:3], heads=4, kv_heads=2
)
# Chunks of prompts: with and without keys before them, without queries, a step of decoding.
CHUNKS = ((300, 500), (0, 20), (257, 257), (1, 640), (40, 90))
PAGED = dynamic("ragged page64 causal", 128, num_qo=2, lengths=CHUNKS)
PAGED256 = replace(PAGED, head_dim=256, num_qo=None)
# Plain pairs, whose correction role writes O: several heads of several sequences.
HEADS256 = dynamic("causal", 256, lengths=((300, 400),) * 2)
HEADS = dynamic("causal", 64, num_qo=2, lengths=((600, 300),) * 2, heads=4, kv_heads=2)
CASES = (
    TWO_Q,
    PAGED,
    PAIR,
    D256,
    MLA,
    HEADS256,
    HEADS,
    dynamic("causal", 96, num_qo=2, lengths=((600, 700),) * 2),
)
MORE = (
    dynamic("ragged page64", 128, num_qo=1),
    dynamic("ragged page16 window sink", 64, num_qo=2),
    dynamic("page64 split", 128, num_qo=1, lengths=((1, 1300), (1, 90), (1, 400))),
    dynamic("ragged causal", 512, heads=1, lengths=((150, 600), (0, 20), (70, 90))),
    dynamic("page16 causal", 256, lengths=((300, 700), (300, 40))),
    dynamic("causal", 256, heads=1, lengths=((600, 300),)),
    dynamic("causal", 256, heads=4, lengths=((300, 400),) * 2, dtype=FP8),
    dynamic("causal", 512, heads=4, lengths=((200, 300),) * 2),
    dynamic("causal", 512, lengths=((300, 600),)),
    dynamic("tokens ragged causal", 128, dtype=FP8, pair_cta=True),
    dynamic("causal", 192, num_qo=2, head_dim_v=128),
    # A sequence after the other.
    dynamic("ragged page16 causal sink", 64, num_qo=2, lengths=CHUNKS),
    dynamic("ragged cache causal", 96, num_qo=2, lengths=CHUNKS),
    dynamic("ragged page64 causal", 192, num_qo=2, head_dim_v=128, lengths=CHUNKS),
    dynamic("ragged page64 causal", 128, num_qo=1, heads=6, kv_heads=3, lengths=CHUNKS),
    dynamic("ragged page64 causal", 128, pair_cta=True, lengths=CHUNKS),
    PAGED256,
    dynamic("ragged page16 causal", 512, heads=1, kv_heads=1, lengths=CHUNKS[1:]),
    # P crosses beside more exponentials emulated than by default.
    dynamic("ragged page64 causal", 96, num_qo=2, lengths=CHUNKS),
    dynamic("ragged page64 causal", 128, dtype=FP8, num_qo=2, lengths=CHUNKS),
    dynamic("ragged causal", 96, num_qo=2),
    dynamic("ragged causal", 128, dtype=FP8, num_qo=2),
)


@pytest.mark.parametrize(
    "case",
    [*CASES, *also(*MORE)],
    ids=str,
)
def test_bits_are_those_of_a_fixed_order(case: Case) -> None:
    found = checked(check_schedules(arguments(case), schedules=({"mode": "late"}, ONE_RANDOM)))
    for other in ({"persistent"}, set()):
        fixed = run(replace(case, features=case.features - {"dynamic"} | other))
        for x, y in zip(fixed.results, found.results, strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize(
    ("case", "kept"), [(HEADS, 1), *also((HEADS, 0), (HEADS, 2), (HEADS256, 1))], ids=str
)
def test_bits_do_not_depend_on_how_many_query_tiles_are_kept_for_the_end(
    case: Case, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are where the keys are as few as here."""
    assert Described(case).packed.plan.scalars[KEPT] > kept
    plain = run(replace(case, features=case.features - {"dynamic"}))
    monkeypatch.setattr(launch, "kept_tiles", lambda *_: kept)
    monkeypatch.setattr(launch, "heads_of_section", lambda *_: 1)
    found = checked(run(case))
    assert all(map(torch.equal, found.results, plain.results))


IN_SECTIONS = (
    dynamic("causal sink", 64, num_qo=2, lengths=((600, 300),) * 2, heads=4, kv_heads=2),
    TWO_Q,
)
MORE_IN_SECTIONS = (
    dynamic("causal modifier", 128, num_qo=2, lengths=((600, 300),) * 2),
    dynamic("window sink", 128, num_qo=2, lengths=((600, 700),) * 2),
    dynamic("causal bias", 256, lengths=((600, 300),) * 2),
    dynamic("ragged window", 128, dtype=FP8, num_qo=2),
    D256,
    MLA,
)


@pytest.mark.parametrize("section", [1, 2])
@pytest.mark.parametrize("case", [*IN_SECTIONS, *also(*MORE_IN_SECTIONS)], ids=str)
def test_bits_do_not_depend_on_the_sections(
    case: Case, section: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what has features, and of packed sequences."""
    plain = run(replace(case, features=case.features - {"dynamic"}))
    monkeypatch.setattr(launch, "kept_tiles", lambda *_: 1)
    monkeypatch.setattr(launch, "heads_of_section", lambda *_: section)
    scalars = Described(case).packed.plan.scalars
    assert (scalars["num_heads"], scalars[KEPT]) == (section, 1)
    found = checked(run(case))
    assert all(map(torch.equal, found.results, plain.results))


@pytest.mark.parametrize("case", [TWO_Q, PAGED, *also(MLA, D256, PAGED256)], ids=str)
def test_packed_sequences_take_it_by_themselves(case: Case) -> None:
    """On a device of 3 SMs: numbers are those of float64, and bits those of a CTA for each."""
    alone = replace(case, features=case.features - {"dynamic"})
    with mock.patch.object(request, "num_sms_of", return_value=SMS):
        assert asked_by(alone)[1].variant.scheduler is Scheduler.DYNAMIC
        found = checked(run(alone))
    assert asked_by(alone)[1].variant.scheduler is Scheduler.TILE
    for x, y in zip(found.results, run(alone).results, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("case", [TWO_Q, PAIR], ids=str)
def test_every_cluster_is_asked_for_once(case: Case) -> None:
    described = Described(case)
    plan, size = described.packed.plan, described.spec.cluster_size
    assert plan.grid == (plan.scalars["num_work"] * size, 1, 1)
    report, _ = Launch(case).execute(RunOptions())
    # Each question is answered with a cluster, or, to each that started itself, with none.
    assert report.opcode_counts["TRY_CANCEL"] == plan.scalars["num_work"]


ENOUGH = 2_000_000
"""Warp instructions. Without the wait for an answer roles take the same work again for ever, and
each round counts as progress."""
LOST = {
    "wait until the answer was read": (RolePipeline, "acquire_next", "answer_empty"),
    "wait for the answer": (RolePipeline, "wait", "answer_full"),
    "expected bytes": (BarrierBlock, "expect", "answer_full"),
    "word that it was read": (BarrierBlock, "arrive", "answer_empty"),
}
PASSED_ON = {"word of the peer": (BarrierBlock, "arrive_at_leader", "answer_empty")}
"""What a fault in the passage of an answer leaves out: whose method, and on which barrier. The
second is a pair's."""


def except_on(mbar: int, whole: Any, method: str) -> Any:
    """Return the method ``whole``, but that it does nothing on barrier ``mbar``."""

    def without(self: Any, first: Any, *more: Any, **options: Any) -> None:
        plan = getattr(self, "plan", None)
        place = first if plan is None else getattr(plan, method)(0).mbar
        if not (isinstance(place, int) and place == mbar):
            whole(self, first, *more, **options)

    return without


@pytest.mark.parametrize(
    ("lost", "case"),
    [
        *((lost, QUICK) for lost in LOST),
        *also(*((lost, PAIR) for lost in (*LOST, *PASSED_ON))),
    ],
    ids=str,
)
def test_what_keeps_answers_apart_is_needed(
    lost: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator finds a kernel without it: a race, a deadlock, or a fault."""
    kind, method, name = {**LOST, **PASSED_ON}[lost]
    spec = spec_of(case)
    (mbar,) = (each.index for each in spec.config.misc_mbars.specs if each.name == name)
    for each in (kind, *kind.__subclasses__()):
        if method in vars(each):
            monkeypatch.setattr(each, method, except_on(mbar, vars(each)[method], method))
    broken = compile_kernel(spec)
    options: dict[str, Any] = {"mode": "random", "max_instructions": ENOUGH}
    assert any(
        objections(arguments(case), artifact=broken, seed=seed, **options) for seed in range(3)
    )


@pytest.mark.parametrize("case", [QUICK, PAIR], ids=str)
def test_kernels_that_are_whole_take_few_instructions(case: Case) -> None:
    """So a run that is stopped for their number would never have ended."""
    assert sum(report.instructions for report in run(case).reports) < ENOUGH // 4
