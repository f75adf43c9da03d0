"""What issuing scores one tile ahead is for: softmax and tensor cores work at the same time."""

import pytest

from fa4_cute.host.run import simulator
from sm100sim.options import run_options
from sm100sim.timeline import overlap_cycles, unit_spans, warp_spans
from tests.kernel.attention_case import Case, inputs
from tests.kernel.depth512_case import run_pair


def measured(case: Case, *, look_ahead: bool) -> tuple[int, float, float]:
    """Return modelled cycles, the busy share of the tensor cores, the overlapped softmax share."""
    with run_options(trace_cluster=0):
        run_pair(case, *inputs(case), look_ahead=look_ahead)
    report = simulator.last_report()
    assert report is not None
    tensor = unit_spans(report, "tensor")
    softmax = [span for span in warp_spans(report, 0) if span.label == "busy"]
    busy = sum(span.end - span.start for span in tensor)
    work = sum(span.end - span.start for span in softmax)
    return report.cycles, busy / report.cycles, overlap_cycles(tensor, softmax) / work


@pytest.mark.parametrize("case", [Case(256, 2048, 256), Case(128, 2048, 512)], ids=str)
def test_look_ahead_overlaps_softmax_with_the_tensor_cores(case: Case) -> None:
    before = measured(case, look_ahead=False)
    after = measured(case, look_ahead=True)
    assert before[2] < 0.1
    assert after[2] > 0.4
    assert after[1] > before[1]
    assert after[0] < 0.85 * before[0]
