"""A launch over all SMs: what fits, in which order, what bounds it; and its band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sm100sim.crew.recording import recording
from sm100sim.timing.predict import Band, Prediction, predict_launch, predict_recording
from sm100sim.timing.predict.gpu import finish, resident_ctas, time_launch
from sm100sim.timing.records import LaunchTrace
from testing.clocked import Program, chip, op
from testing.harness import run_ptx

H100 = chip("h100", cta_cycles=100, launch_cycles=4000)


def launch(*lengths: int, each: int = 1, warps: int = 4, shared: int = 100_000) -> LaunchTrace:
    """CTAs of four warps that take so many cycles, `each` as many of every length, in turn."""
    traces = []
    for k, length in enumerate(lengths):
        program = Program()
        for warp in range(4):
            program.warp(warp, *[op("NOP")] * length)
        trace = program.trace()
        traces.append(replace(trace, clusters=tuple(range(k, len(lengths) * each, len(lengths)))))
    grid = (len(lengths) * each, 1, 1)
    return LaunchTrace(grid, (32 * warps, 1, 1), (1, 1, 1), shared, tuple(traces))


@pytest.mark.parametrize(
    ("warps", "shared", "expected"),
    [(4, 233472, 1), (4, 100_000, 2), (4, 0, 4), (16, 0, 1), (8, 0, 2)],
)
def test_what_fits_an_sm(warps: int, shared: int, expected: int) -> None:
    """128 registers a thread: 16 warps fill the file."""
    assert resident_ctas(launch(10, warps=warps, shared=shared), H100) == expected


def test_what_does_not_fit_is_refused() -> None:
    told = r"32 warps, 131072 registers and 0 bytes of shared memory do not fit"
    with pytest.raises(ValueError, match=told):
        resident_ctas(launch(10, warps=32, shared=0), H100)


def test_jobs_take_the_first_free_place() -> None:
    assert finish([10, 20, 30], places=3, gap=1) == 31
    assert finish([30, 20, 10, 10], places=2, gap=0) == 40
    assert finish([10, 10, 20, 30], places=2, gap=0) == 40
    assert finish([30, 20, 10, 10], places=1, gap=5) == 90


def test_a_second_wave_takes_as_long_again() -> None:
    one, two = (time_launch(launch(1000, each=n, shared=200_000), H100) for n in (132, 133))
    assert (one.resident, one.places) == (1, 132)
    assert one.cycles == 4000 + 100 + 1000
    assert two.cycles == 4000 + 2 * (100 + 1000)


def test_ctas_of_one_sm_share_it() -> None:
    """Two CTAs an SM: each sub-partition has a warp of both, which share its slot."""
    times = time_launch(launch(1000, each=264), H100)
    assert (times.resident, times.places) == (2, 264)
    assert times.longest.cycles == pytest.approx(2000, abs=2)
    few = time_launch(launch(1000, each=132), H100)
    assert few.longest.cycles == 1000


def test_a_place_is_taken_again_on_its_own() -> None:
    """Three CTAs an SM of which two fit, one slot shared: work of three, and not of two waves."""
    times = time_launch(launch(1000, each=3 * 132), H100)
    assert times.cycles == pytest.approx(4000 + 100 + 2000 + 100 + 1000, abs=5)
    mixed = time_launch(launch(1000, 1000, each=3 * 66), H100)
    assert mixed.cycles == pytest.approx(times.cycles), "as many of two kinds that are alike"


def test_memory_may_take_longer() -> None:
    given = launch(1000, each=132, shared=200_000)
    draw = chip("h100", hbm_gbytes=3300, clock_mhz=1650, launch_cycles=0, cta_cycles=0)
    bound = time_launch(given, draw, hbm_bytes=2000 * 5000)
    assert (bound.bound_by, bound.cycles) == ("HBM", 5000)
    assert time_launch(given, draw, hbm_bytes=2000).bound_by == "SMs"


def test_a_prediction_has_a_band_that_the_seed_repeats() -> None:
    given = launch(3000, each=132)
    first = predict_launch(given, "h100", draws=8)
    assert first.band.low < first.band.median < first.band.high
    assert first.cycles == predict_launch(given, "h100", draws=8).cycles
    assert first.cycles != predict_launch(given, "h100", draws=8, seed=1).cycles
    assert first.microseconds == pytest.approx(first.band.median / 1980)


@pytest.mark.slow
def test_kernels_are_compared_draw_by_draw() -> None:
    """Twice the work: the ratio's band is narrow where the cycles' bands overlap."""
    one, two = (predict_launch(launch(n, each=132), "h100", draws=8) for n in (30_000, 33_000))
    ratio = two.ratio(one)
    assert ratio.low > 1.07
    assert ratio.high < 1.1
    assert one.ratio(one) == Band(1, 1, 1)
    with pytest.raises(ValueError, match=r"other: 4 draws of h100"):
        one.ratio(predict_launch(launch(10), "h100", draws=4))


def test_code_of_another_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="b200 is sm_100a, and the code is of sm_90a"):
        predict_launch(launch(10), "b200")
    with pytest.raises(ValueError, match="draws: 0"):
        predict_launch(launch(10), "h100", draws=0)


STORES = """mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %p0, %rd1;
ld.global.f32 %f1, [%rd2];
{exponentials}
st.global.f32 [%rd2], %f1;
"""


def predicted(exponentials: int, grid: int = 4, clusters: list[int] | None = None) -> Prediction:
    """A kernel with a chain of exponentials, recorded and predicted on a B200."""
    chain = "ex2.approx.f32 %f1, %f1;\n" * exponentials
    with recording(clusters) as launches:
        run_ptx(STORES.format(exponentials=chain), np.ones(32, np.float32), grid=(grid, 1, 1))
    return predict_recording(launches[0], "b200", draws=2)


def test_a_recorded_launch_is_predicted() -> None:
    """Each further exponential of a chain costs its unit's cycles and latency at least."""
    few, many = predicted(4), predicted(36)
    cost = many.typical.longest.cycles - few.typical.longest.cycles
    assert cost >= 32 * (8 + chip("b200")["mufu_latency"])
    assert many.ratio(few).low > 1
    assert many.compiler


def test_a_launch_of_which_clusters_are_missing_is_refused() -> None:
    with pytest.raises(ValueError, match="recorded: 2 of 4 clusters"):
        predicted(1, clusters=[0, 1])
