"""The one runner of cases: through the public call, held against float64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch

import fa4_cute
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.ask.request import Request
from fa4_cute.host.choose import support
from fa4_cute.host.compile import cache
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.run import calls, compute, simulator
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH
from sm100sim.options import Check
from testing.arguments import Arguments, arguments
from testing.cases import FP8, Case
from testing.reference.attention import Comparison, compare
from testing.reference.fp8 import compare_fp8

Rewrite = Callable[[str], str]
SMS = 3
"""SMs of the device, so that a persistent CTA takes several query tiles."""
SMS_OF_PAIRS = 2 * SMS
"""SMs of it where pairs of CTAs take parts of query tiles: as many pairs."""
CHECKS = Check.ALL | Check.TO_THE_LETTER
"""The package's kernels keep to the letter of the ISA."""


@dataclass(frozen=True)
class Outcome:
    """One call: its arguments and results, and the reports of its launches."""

    arguments: Arguments
    out: torch.Tensor
    lse: torch.Tensor
    reports: tuple[Any, ...]

    @property
    def comparison(self) -> Comparison:
        """How far the results are from float64."""
        judge = compare_fp8 if self.arguments.q.dtype is FP8 else compare
        return judge(self.out, self.lse, self.arguments.inputs, **self.arguments.options)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the simulator says of each launch."""
        return tuple(report.verdict for report in self.reports)

    @property
    def findings(self) -> list[Any]:
        """What the checkers found in all launches."""
        return [finding for report in self.reports for finding in report.findings]

    @property
    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        """O and log-sum-exp."""
        return self.out, self.lse


@contextmanager
def launches(
    rewrite: Rewrite = str, more: tuple[torch.Tensor, ...] = ()
) -> Iterator[list[Any]]:
    """Collect the reports of all launches inside the block, whose PTX ``rewrite`` may change.

    Memory that a launch only writes is NaN before the first one; ``more`` of it is left as it is.
    """
    reports: list[Any] = []
    launch = simulator.launch

    def recorded(ptx: str, kernel: str, packed: Any, buffers: Any) -> Any:
        for buffer in buffers if not reports else ():
            if buffer.writable and buffer.size and not buffer.is_read:
                ctypes.memset(buffer.address, 0xFF, buffer.size)
        others = [simulator.HostBuffer(x.data_ptr(), x.nbytes, writable=True) for x in more]
        reports.append(launch(rewrite(ptx), kernel, packed, [*buffers, *others]))
        return reports[-1]

    with mock.patch.object(simulator, "launch", recorded):
        yield reports


def sms_of(given: Arguments) -> int:
    """Return how many SMs the device has on which a call is made."""
    in_pairs = given.q.shape[-1] >= SMALLEST_DEPTH and given.options.get("arch") != SM90A
    streams = given.options.get("scheduler") == "stream_k"
    return SMS_OF_PAIRS if in_pairs and streams else SMS


def call(
    given: Arguments,
    *,
    rewrite: Rewrite = str,
    num_sms: int | None = None,
    spec: AttentionSpec | None = None,
    artifact: CompiledArtifact | None = None,
    more: tuple[torch.Tensor, ...] = (),
) -> Outcome:
    """Make the public call on a device of ``num_sms`` SMs, by default :func:`sms_of`.

    Args:
        given: arguments of the call.
        rewrite: may change the PTX first, to see what a fault in it leads to.
        num_sms: SMs of the device.
        spec: another kernel than the one that the call chooses, or None.
        artifact: what the kernel is compiled to, if not what the compiler says.
        more: memory that a changed kernel may write.

    Raises:
        sm100sim.report.SimulationFault: the kernel broke a rule of the machine.
    """
    function = (
        fa4_cute.flash_attn_varlen if "cu_seqlens_q" in given.options else fa4_cute.flash_attn
    )
    choose = support.choose if spec is None else lambda problem: chosen(problem, spec)
    num_sms = num_sms or sms_of(given)
    few = partial(pack_launch, num_sms=num_sms)
    compiled = cache.compiled if artifact is None else lambda _: artifact
    with (
        launches(rewrite, more) as reports,
        mock.patch.object(calls, "kept", calls.Kept(0)),
        mock.patch.multiple(compute, pack_launch=few, choose=choose, SM_COUNT=num_sms),
        mock.patch.object(cache, "compiled", compiled),
    ):
        out, lse = function(*given.inputs, return_lse=True, **given.options)
    return Outcome(given, out, lse, tuple(reports))


def chosen(problem: Problem, spec: AttentionSpec) -> support.Choice:
    """Return the choice for ``problem`` with ``spec`` in the place of its kernel."""
    choice: support.Choice = support.require(support.choose(problem))
    return replace(choice, spec=spec)


def asked_by(case: Case, num_sms: int | None = None) -> tuple[Request, AttentionSpec]:
    """Return what the public call of a case would launch, and the kernel.

    Raises:
        RuntimeError: the call launches nothing, or several times.
        TypeError, ValueError, NotImplementedError: nothing here can run it.
    """
    found: list[tuple[Request, AttentionSpec]] = []

    def noted(asked: Request, spec: AttentionSpec) -> compute.Done:
        found.append((asked, spec))
        stand_in = asked.inputs[0]  # nobody looks at the results of a call that launched nothing
        return compute.Done(stand_in, stand_in, asked)

    with mock.patch.object(compute, "_launched", noted):
        call(arguments(case), num_sms=num_sms)
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} launches: a case must make one")
    return found[0]


def spec_of(case: Case) -> AttentionSpec:
    """Return the kernel of a case; errors as :func:`asked_by`."""
    return asked_by(case)[1]


def run(case: Case, seed: int = 0, **options: Any) -> Outcome:
    """Run a case, with further ``options`` of the call."""
    return call(arguments(case, seed, **options))


def check(case: Case, seed: int = 0, **options: Any) -> Outcome:
    """Run a case; it must be right, and clean under the checkers."""
    return checked(run(case, seed, **options))


def checked(outcome: Outcome) -> Outcome:
    """Return the outcome, which must be right, and clean under the checkers."""
    outcome.comparison.check()
    assert outcome.verdicts
    assert set(outcome.verdicts) == {"clean"}, outcome.verdicts
    return outcome
