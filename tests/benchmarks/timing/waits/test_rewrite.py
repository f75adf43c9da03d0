"""PTX with the clock read around its waits: which waits are found, and what warps write."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from benchmarks.timing.waits.records import BEGIN, END, WORDS, Record, counted, decoded
from benchmarks.timing.waits.rewrite import PARAMETER, rewritten
from sm100sim.launch_request import LaunchRequest
from sm100sim.run import run as make
from testing.harness import aligned_copy, kernel_text

OURS = """{
.reg .pred done;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], 0;
@done bra.uni OVER;
bra.uni WAIT;
OVER:
}"""
THEIRS = """{
.reg .pred complete;
waitLoop:
.loc 1 70 5
mbarrier.try_wait.parity.shared::cta.b64 complete, [%r1], 0;
@!complete bra.uni waitLoop;
}"""
FIRST = """mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; setp.ne.u32 %q1, %r0, 0; @%q1 bra SET;
mbarrier.init.shared.b64 [%r1], 1; mbarrier.arrive.shared.b64 %rd1, [%r1];
SET: bar.warp.sync -1;
bar.sync 0;
"""
SHARED = ".extern .shared .align 1024 .b8 dyn[];"
WARPS, RECORDS = 2, 8


def module(body: str) -> str:
    return kernel_text(FIRST + body, [np.zeros(1, np.uint32)], shared=SHARED)


@pytest.mark.parametrize("loop", [OURS, THEIRS])
def test_a_wait_is_the_whole_loop(loop: str) -> None:
    found = rewritten(module(loop), warps=WARPS, records=RECORDS)
    assert [site.kind for site in found.sites] == ["barrier", "mbarrier"]
    label, last = ("WAIT:", "OVER:") if loop == OURS else ("waitLoop:", "@!complete")
    text = found.ptx
    begin = text.index(f"mov.u32 %w_1, %clock;\n{label}") + len("mov.u32 %w_1, %clock;")
    end = text.index(f"\n{last}", begin)
    assert "%clock" not in text[begin:end]
    assert text.index("mov.u32 %w_2, %clock;", end) - end < 60


def test_only_the_kinds_that_are_asked_for() -> None:
    found = rewritten(module(OURS), warps=WARPS, records=RECORDS, kinds=["barrier"])
    assert [site.kind for site in found.sites] == ["barrier"]
    assert found.sites[0].text == "bar.sync 0;"


def test_only_the_first_waits() -> None:
    found = rewritten(module(OURS), warps=WARPS, records=RECORDS, most=1)
    assert [site.kind for site in found.sites] == ["barrier"]
    assert rewritten(module(OURS), warps=WARPS, records=2, kinds=()).sites == ()


def test_a_loop_of_another_form_is_refused() -> None:
    text = module(OURS.replace("WAIT:\n", "WAIT: mov.u32 %r2, 0;\n"))
    with pytest.raises(ValueError, match="no loop of a known form"):
        rewritten(text, warps=WARPS, records=RECORDS)


def test_a_module_without_a_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="no kernel"):
        rewritten(".version 8.8", warps=1, records=4)


def run(body: str, *, step: int = 1, grid: int = 1) -> list[list[list[Record]]]:
    """What warps of `WARPS` write, as the simulator runs it."""
    words = np.zeros(grid * WARPS * RECORDS * WORDS, np.uint32)
    text = rewritten(module(body), warps=WARPS, records=RECORDS, step=step).ptx
    assert PARAMETER in text
    return decoded(launched(text, words, grid), WARPS, RECORDS)


def launched(text: str, words: np.ndarray, grid: int) -> np.ndarray:
    buffers = [aligned_copy(np.zeros(1, np.uint32)), aligned_copy(words)]
    params = tuple(struct.pack("<Q", b.ctypes.data) for b in buffers)
    make(LaunchRequest(text, "k", (grid, 1, 1), (32 * WARPS, 1, 1), (1, 1, 1), 2048, params))
    return buffers[1]


def test_each_warp_writes_its_waits_in_order() -> None:
    ((first, second),) = run(OURS)
    assert [r.site for r in first] == [BEGIN, 0, 1, END]
    assert [r.site for r in second] == [BEGIN, 0, 1, END]
    for warp in (first, second):
        assert all(r.behind >= r.before for r in warp[1:-1])
        clocks = [c for r in warp[1:-1] for c in (r.before, r.behind)]
        assert [warp[0].before, *clocks, warp[-1].before] == sorted(
            [warp[0].before, *clocks, warp[-1].before]
        )


def test_a_full_warp_still_says_when_it_ends() -> None:
    ((first, _),) = run("bar.sync 0;\n" * 12)
    assert [r.site for r in first] == [BEGIN, *range(RECORDS - 2), END]


def test_every_second_cta_writes() -> None:
    found = run(OURS, step=2, grid=4)
    assert [bool(cta[0]) for cta in found] == [True, True, False, False]


def test_cycles_count_from_the_first_warp_even_when_the_clock_begins_anew() -> None:
    late = 2**32 - 5
    warps = [
        [Record(BEGIN, 10, 3), Record(2, 20, 50), Record(END, 60, 3)],
        [Record(BEGIN, late, 3), Record(END, 5, 3)],
        [],
    ]
    assert counted(warps) == [
        [[BEGIN, 15, 0], [2, 25, 30], [END, 65, 0]], [[BEGIN, 0, 0], [END, 10, 0]], [],
    ]  # fmt: skip
