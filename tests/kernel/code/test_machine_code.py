"""Every warp of our kernels finds its way through their machine code, anchor by anchor."""

from __future__ import annotations

from collections import Counter

import pytest

from fa4_cute.plan.facts.hardware import SM90A
from sm100sim.crew.recording import Recording, recording
from sm100sim.report import Report, record
from sm100sim.timing.records import Action, Pipe, SassKernel
from sm100sim.timing.sass.lines import compiled
from sm100sim.timing.sass.trace import Matcher
from testing.cases import Case, dense
from testing.runner import run

CASES = {
    "sm90": (dense(384, 1024, 128, causal=True, num_qo=None, arch=SM90A), "sm_90a"),
    "2q": (dense(256, 1024, 128, causal=True), "sm_100a"),
    "depth512": (dense(256, 512, 512, causal=True), "sm_100a"),
}
ANSWERED = {
    "MBAR_WAIT": Action.MBARRIER_WAIT, "MBAR_ARRIVE": Action.MBARRIER_ARRIVE, "MMA": Action.MMA,
    "WGMMA": Action.WGMMA, "TMA_LOAD": Action.COPY_LOAD, "TMA_STORE": Action.COPY_STORE,
    "MMA_COMMIT": Action.MMA_COMMIT, "TMEM_LD": Action.TMEM_LOAD,
    "TMEM_ST": Action.TMEM_STORE,
}  # fmt: skip
"""Engine operation -> its event, as often in machine code as in the run."""


KEPT_WHOLE = ("MUFU.EX2", "MUFU.RCP", "SHFL", "LDTM")
"""Instructions of which ptxas makes one for a statement, in the statement's block."""


def recorded(case: Case) -> tuple[Recording, Report]:
    with recording() as launches, record() as reports:
        run(case)
    return launches[0], reports[0]


def made(matcher: Matcher) -> Counter[Action]:
    """Executed instructions with an event, of all recorded clusters."""
    found: Counter[Action] = Counter()
    for trace in matcher.launch().traces:
        for stream in trace.streams:
            kinds = [trace.events[k].kind for k in stream.event.tolist() if k >= 0]
            for action, count in Counter(kinds).items():
                found[action] += len(trace.clusters) * count
    return found


def executed(kernel: SassKernel, matcher: Matcher) -> Counter[int]:
    """Executions of KEPT_WHOLE by PTX line, of all recorded clusters."""
    found: Counter[int] = Counter()
    for trace in matcher.launch().traces:
        for stream in trace.streams:
            for k, count in Counter(stream.order.tolist()).items():
                if kernel.instructions[k].mnemonic.startswith(KEPT_WHOLE):
                    found[kernel.instructions[k].ptx_line or 0] += count * len(trace.clusters)
    return found


@pytest.mark.parametrize(
    "name", ["sm90", *(pytest.param(n, marks=pytest.mark.slow) for n in ("2q", "depth512"))]
)
def test_each_warp_agrees_with_its_run(name: str) -> None:
    """Also statements that had no part in finding the ways are executed as often as in the run."""
    case, arch = CASES[name]
    launched, report = recorded(case)
    kernel = compiled(launched.request.ptx, arch, launched.request.kernel)
    matcher = Matcher(kernel, launched)
    events = made(matcher)
    assert not matcher.guesses
    assert not matcher.lost
    ran = launched.steps["instruction"][launched.steps["mask"] != 0]
    steps = Counter(matcher.names[k] for k in ran.tolist())
    for operation, action in ANSWERED.items():
        assert events[action] == steps[operation], operation
    barriers = events[Action.NAMED_BARRIER] + events[Action.NAMED_ARRIVE]
    assert barriers == steps["NAMED_BARRIER"]
    counts = executed(kernel, matcher)
    assert len(counts) > 50
    assert counts == {line: report.line_counts[line] for line in counts}


def test_units_of_the_hopper_kernel_are_those_of_its_work() -> None:
    """Per key tile each softmax warp takes 64 exponentials and the products of two 64 x 128."""
    case, arch = CASES["sm90"]
    launched, _ = recorded(case)
    kernel = compiled(launched.request.ptx, arch, launched.request.kernel)
    trace = Matcher(kernel, launched).cluster(0)
    softmax = trace.streams[4]
    units = Counter(kernel.instructions[k].pipe for k in softmax.order.tolist())
    products = sum(
        kernel.instructions[k].opcode == "HGMMA" for k in softmax.order.tolist()
    )  # fmt: skip
    tiles = products // 16
    assert products % 16 == 0
    assert tiles > 1
    assert 64 * tiles <= units[Pipe.MUFU] <= 70 * tiles
