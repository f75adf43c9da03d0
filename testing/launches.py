"""Attention launches that are repeated with other PTX or other options.

A launch is prepared once through the public call and kept as plain data: requests, buffers, output.
Where nothing but the host's work counts, there is no launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, simulator
from fa4_cute.host.run.launch import PackedLaunch, pack_combine, pack_launch
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.launch.launch import Workspace
from sm100sim.launch_request import LaunchRequest
from sm100sim.memory import Allocation
from sm100sim.options import RunOptions
from sm100sim.report import Report
from sm100sim.run import run
from testing.cases import Case
from testing.runner import asked_by

SMS = 2
"""SMs for persistent kernels: few, so that a CTA takes several query tiles."""


def _request(artifact: Any, packed: PackedLaunch) -> LaunchRequest:
    return LaunchRequest(
        ptx=artifact.ptx, kernel=artifact.kernel_name, grid=packed.plan.grid,
        block=packed.plan.block, cluster=packed.plan.cluster,
        smem_bytes=packed.plan.smem_bytes, params=packed.params,
    )  # fmt: skip


class Described:
    """A call before its kernels are compiled.

    Attributes:
        problem: what was asked for, its keys split as the chosen kernel splits them.
        spec: the attention kernel.
        call: its tensors.
        packed: parameters and grid of its launch.
    """

    def __init__(self, case: Case, num_sms: int | None = None) -> None:
        """Choose the kernel of `case` and pack its parameters for a device of `num_sms` SMs.

        By default they are few: `SMS`, and as many pairs where pairs take parts of query tiles.
        """
        # The inputs live as long as the call that has their addresses.
        self._asked, _ = asked_by(case, SMS)
        choice: Any = require(choose(self._asked.problem))
        self.spec = choice.spec
        self.problem = self._asked.problem.settled(self.spec.variant, choice.num_splits)
        if num_sms is None:
            streams = self.spec.variant.streams_keys
            num_sms = SMS * self.spec.config.cta_group() if streams else SMS
        given = self._asked.inputs, self._asked.tensors
        workspace = Workspace.of(self.spec, self.problem.sizes, choice.num_splits, num_sms)
        self.call = describe_call(self.problem, *given, workspace=workspace)
        self.packed = pack_launch(self.spec, self.call.described, num_sms=num_sms)


class Launch:
    """A prepared call; `execute` repeats it.

    Attributes:
        case: what was called.
        spec: the attention kernel.
        requests: its launch and, when the keys are split, that of the combine kernel.
        subject: which of them another PTX replaces.
    """

    def __init__(self, case: Case, subject: int = 0) -> None:
        """Compile (or load) the kernels of `case` and pack their parameters."""
        self.case, self.subject = case, subject
        self._described = described = Described(case)
        self.spec, self._call = described.spec, described.call
        self.requests = [_request(cache.compiled(self.spec), described.packed)]
        splits = self._call.splits(described.problem)
        if splits is not None:
            self.requests.append(_request(cache.compiled(splits.spec), pack_combine(splits)))
        self.buffers = [
            Allocation(b.address, b.size, b.writable) for b in self._call.host_buffers()
        ]

    @property
    def request(self) -> LaunchRequest:
        """The launch whose PTX can be replaced."""
        return self.requests[self.subject]

    @property
    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE, as the latest :meth:`execute` left them."""
        return self._call.out, self._call.lse

    def execute(self, options: RunOptions, ptx: str | None = None) -> tuple[Report, list[bytes]]:
        """Run with NaN-filled outputs, and counters at 0 whatever a run before left there.

        Returns:
            The report of the subject, or of the first launch that is not clean; the bits of O and
            LSE, and of counters, which other launches would find.
        """
        outputs = [self._call.out, self._call.lse]
        for tensor in [*outputs, *(self._call.partial or ())]:
            tensor.fill_(float("nan"))
        if self._call.counters is not None:
            outputs.append(self._call.counters.memory.zero_())
        requests = list(self.requests)
        if ptx is not None:
            requests[self.subject] = replace(self.request, ptx=ptx)
        reports = [run(request, options, self.buffers) for request in requests]
        unclean = [report for report in reports if report.verdict != "clean"]
        report = unclean[0] if unclean else reports[self.subject]
        return report, [t.contiguous().view(torch.uint8).numpy().tobytes() for t in outputs]


@contextmanager
def no_launch() -> Iterator[None]:
    """Compile and launch nothing; all else is done."""
    artifact = SimpleNamespace(ptx="", cubin=b"", kernel_name="kernel")
    nothing = (lambda: None), (lambda *_: None)
    with ExitStack() as stack:
        enter = stack.enter_context
        enter(mock.patch.object(cache, "compiled", return_value=artifact))
        enter(mock.patch.object(simulator, "launch"))
        enter(mock.patch.object(calls, "_repeat_on", return_value=lambda *_: nothing))
        enter(mock.patch.object(calls, "kept", calls.Kept()))
        yield
