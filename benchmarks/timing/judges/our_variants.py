"""Variants of this package's Hopper kernel that judge the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest import mock

import fa4_cute
from benchmarks.hopper.sm90_variants import PERSISTENT, TILE, Trial
from benchmarks.timing.judges.cases import Case
from benchmarks.timing.judges.problems import Paged, Tensors
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice
from fa4_cute.host.compile import cache
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.host.run import compute
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.plan.config import sm90_memory
from fa4_cute.plan.config.sm90_tiles import MAX_KV_STAGES
from fa4_cute.plan.facts.hardware import SM90A
from sm100sim.crew.recording import Recording, recording

SMS, CAPABILITY = 132, 90
"""Of an H100 SXM and an H200."""


@dataclass(frozen=True)
class Variant(Trial):
    """A trial that may also have fewer slots or registers.

    Attributes:
        stages: most slots of K and V, 0 as chosen.
        registers: of a thread that multiplies, 0 as chosen.
    """

    stages: int = 0
    registers: int = field(default=0)

    def chosen(self, problem: Problem) -> Choice:
        """Return the kernel of `problem` with the changes."""
        choice = super().chosen(problem)
        if not self.registers:
            return choice
        spec: Any = choice.spec
        most = max(role.registers for role in spec.schedule.roles)
        roles = tuple(
            replace(role, registers=self.registers) if role.registers == most else role
            for role in spec.schedule.roles
        )
        schedule = replace(spec.schedule, roles=roles)
        return replace(choice, spec=replace(spec, schedule=schedule))


VARIANTS: Final = {
    "as chosen": Variant(),
    "one tile a CTA": Variant(TILE),
    "persistent": Variant(PERSISTENT),
    "any time": Variant(TILE, {"in_turn": False}),
    "one consumer": Variant({"num_qo": 1}),
    "fewer consumers": Variant(TILE, {"most_consumers": 2}),
    "two consumers": Variant(TILE, {"long_keys": False}),
    "two consumers, 208 registers": Variant(TILE, {"long_keys": False}, registers=208),
    "32 keys": Variant(TILE, {"keys": 32}),
    "48 keys": Variant(TILE, {"keys": 48}),
    "64 keys": Variant(TILE, {"keys": 64}),
    "96 keys persistent": Variant(PERSISTENT, {"keys": 96}),
    "2 stages": Variant(TILE, stages=2),
    "64 keys, 2 stages": Variant(TILE, {"keys": 64}, stages=2),
    "208 registers": Variant(TILE, registers=208),
}
"""By the name of a case's variant."""


_kept: dict[tuple[int, Any], Any] = {}
"""By slots and specification."""


def _of_few_slots(variant: Variant, spec: Any) -> Any:
    """The kernel of a variant with fewer slots, from no cache but this."""
    key = (variant.stages, spec)
    if key not in _kept:
        _kept[key] = compile_kernel(spec)
    return _kept[key]


@contextmanager
def _in_force(variant: Variant, cubins: dict[str, bytes]) -> Iterator[None]:
    compile_ = cache.compiled

    def noted(spec: Any) -> Any:
        # Slots are no part of a specification: a cache would give the kernel of the usual ones.
        artifact = _of_few_slots(variant, spec) if variant.stages else compile_(spec)
        cubins[artifact.ptx] = artifact.cubin
        return artifact

    def few(*args: Any, **options: Any) -> Any:
        return pack_launch(*args, **{**options, "num_sms": SMS})

    most = variant.stages or MAX_KV_STAGES
    with (
        variant.in_force(),
        mock.patch.object(sm90_memory, "MAX_KV_STAGES", most),
        mock.patch.object(cache, "compiled", noted),
        mock.patch.object(compute, "pack_launch", few),
        fa4_cute.simulator_options(mode="fast", checks="none"),
    ):
        yield


Heard = tuple[Recording, dict[str, bytes]]


def recorded(case: Case, t: Tensors, clusters: Sequence[int]) -> Heard:
    """The launch of a variant of which some clusters are executed, and cubins by PTX."""
    variant, cubins = VARIANTS[case.variant], dict[str, bytes]()
    options: dict[str, Any] = {"arch": SM90A, **variant.options}
    if isinstance(case.problem, Paged):
        options |= {"page_table": t["table"], "seqused_k": t["lengths"], "causal": True}
    with _in_force(variant, cubins), recording(clusters, others=False) as launches:
        fa4_cute.flash_attn(t["q"], t["k"], t["v"], out=t["out"], **options)
    (found,) = launches
    return found, cubins
