"""Published ratios, the builds and variants that they compare, and the ladder's order."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.machine_state import DRAWS
from benchmarks.timing import ladder
from benchmarks.timing.claims import builds, clocks, found, page
from benchmarks.timing.claims.__main__ import ends_of, predicted, with_ends
from benchmarks.timing.claims.builds import JUNE, MAY, TIRX, TODAY
from benchmarks.timing.claims.causes import CAUSES
from benchmarks.timing.claims.table import CLAIMS, PAIR, Call, Claim
from benchmarks.timing.side_by_side.problems import Family
from benchmarks.timing.side_by_side.rows import Maker
from benchmarks.timing.side_by_side.variants import KNOBS, changed, rewritten
from sm100sim.timing.chips import load_chip

REGISTERS = (("registers", ((192, 80, 48), (200, 88, 24))),)
BY_NAME = {claim.name: claim for claim in CLAIMS}


def test_names_are_unique_and_each_stands_in_a_table() -> None:
    assert len(BY_NAME) == len(CLAIMS)
    assert {claim.group for claim in CLAIMS} == set(page.GROUPS)
    assert all(0.3 < claim.published < 4 for claim in CLAIMS)
    knobs = {name for c in CLAIMS for call in (c.above, c.below) for name, _ in call.column.changes}
    assert knobs == set(KNOBS)


def test_ratios_of_tflops_are_ratios_of_times() -> None:
    assert BY_NAME["K and V in 2 stages instead of 3"].published == pytest.approx(1.0374, abs=1e-4)
    curve = BY_NAME["4K over 16K, 32K tokens"]
    assert curve.published == pytest.approx(1401 / 1309)
    assert curve.work == 0.25
    assert curve.above.heads * curve.above.length == curve.below.heads * curve.below.length


def test_what_was_timed_is_compared_before_todays() -> None:
    timed, today = BY_NAME["causal over all keys, 1K"].compared()
    assert [build for build, _ in timed] == [MAY, MAY]
    assert [call.column.assembler for _, call in timed] == ["13.1", "13.1"]
    assert [build for build, _ in today] == [TODAY, TODAY]
    todays, other = BY_NAME["causal over all keys, 8K, b1 h32"].compared()
    assert (todays[0][0], other[0][0]) == (TODAY, MAY)
    assert MAY.name == "b15, DSL 4.4.2 for CUDA 13, ptxas 13.1"


def test_tirx_s_calls_are_of_its_own_build_beside_each_of_flash_attention() -> None:
    claim = BY_NAME["TIRx over FlashAttention-4, 8K, causal"]
    assert claim.published == pytest.approx(434.38 / 433.81)
    compared = list(claim.compared())
    assert [[build for build, _ in pair] for pair in compared] == [[TIRX, TODAY], [TIRX, MAY]]
    assert {pair[0][1].name("b200") for pair in compared} == {
        "b200: 32 x 8192 bf16 d128 causal level 5, ptxas 13.4"
    }
    assert compared[1][1][1].column.assembler == "13.1"
    shorter = BY_NAME["TIRx over FlashAttention-4, 1K, causal"].above.column.options
    assert shorter == (("level", "4"),)
    assert BY_NAME["TIRx over FlashAttention-4, 8K, all"].above.column.options == ()
    found_of = {(one.claim.name, one.build) for one in found.every(calls(), [])}
    assert {(claim.name, TODAY.name), (claim.name, MAY.name)} <= found_of


def test_tirx_is_here_where_its_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for named in (True, False):
        monkeypatch.setenv("SM100SIM_TIRX", "python")
        if not named:
            monkeypatch.delenv("SM100SIM_TIRX")
        assert TIRX.here is named
    assert TIRX.name == "tirx-kernels 0.1.2, apache-tvm 0.27.0, nvcc 13, ptxas 13.4"


def test_an_older_dsl_gets_calls_of_its_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Base:
        def __call__(self, number: int) -> int:
            return number + 1

    class Program(Base):
        pass

    module = SimpleNamespace(TVMFFIJitCompiledFunction=Program)
    monkeypatch.setattr(builds, "import_module", lambda _: module)
    builds.ready()
    assert "__call__" in vars(Program)
    assert Program()(1) == 2


def test_a_build_is_here_where_all_three_of_it_are(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"flash-attn-4": MAY.release, "nvidia-cutlass-dsl": MAY.dsl}
    monkeypatch.setattr(builds, "version", versions.get)
    for number, here in ((13, True), (12, False)):
        dsl = SimpleNamespace(CUDA_VERSION=SimpleNamespace(major=number))
        monkeypatch.setattr(builds, "import_module", lambda _, dsl=dsl: dsl)
        assert MAY.here is here
    assert not JUNE.here


def calls() -> list[dict[str, Any]]:
    """A record of each call: cycles in proportion to its keys; one end costs pairs of CTAs 2 %."""
    rows = {}
    for claim in CLAIMS:
        for build, call in (one for pair in claim.compared() for one in pair):
            cycles = call.length**2 * call.heads / (2 if call.family.causal else 1)
            key = build.name, call.name(claim.chip)
            ends = {} if call.column.one_cta else {"remote_latency 56": cycles * 1.02}
            rows[key] = {"build": key[0], "call": key[1], "cycles": [cycles, 2 * cycles, cycles],
                         "ends": ends, "local": 0}  # fmt: skip
    return list(rows.values())


def test_ratios_are_those_of_calls_draw_by_draw() -> None:
    for one in found.every(calls(), []):
        if one.claim.group == "lengths":
            assert one.ratios == [1, 1, 1]
        if one.claim.group == "masks":
            assert one.ratios == [0.5, 0.5, 0.5]
    (row, *_) = [one for one in found.every(calls(), []) if "8K, 72 shapes" in one.claim.name]
    assert row.ends == {"remote_latency 56": 1.02}
    assert row.moved() == [("remote_latency 56", 1.02)]
    assert row.reach() == pytest.approx(1.02 / row.claim.published - 1)
    assert found.told(row).startswith("`remote_latency` 56 instead of 76 (inferred) +2.0%; all of")


def test_ratios_of_today_are_kept_where_calls_are_not() -> None:
    claim = CLAIMS[0]
    (one,) = found.every([], [{"name": claim.name, "ratios": [claim.published] * 3}])
    assert (one.build, one.hit, one.error) == (TODAY.name, True, 0)
    assert found.told(one) == "what moves it is not kept"


def test_hits_and_misses_are_counted() -> None:
    rows = [{"name": claim.name, "ratios": [claim.published, 1.0, 1.0]} for claim in CLAIMS[:2]]
    rows.append({"name": CLAIMS[2].name, "ratios": [CLAIMS[2].published * 1.1] * 3})
    text = "\n".join(page.section(found.every([], rows)))
    assert text.startswith("3 ratios: 2 within 3% of what was published, 0 with")
    assert "mean size of the error 3.3%, nine of ten within 10.0%. Of the build" in text
    assert text.count("not run") == len(CLAIMS) - 3
    published = CLAIMS[2].published
    row = f"| {CLAIMS[2].name} | {TODAY.name} | {published:.3f} | {published * 1.1:.3f} |"
    assert row in text
    assert all(isinstance(claim, Claim) for claim in CLAIMS)


def test_every_ratio_that_is_far_off_stands_under_a_cause() -> None:
    names = ("registers 200/88/24, 8K", "no polynomials over 1 of 14, d256, 4K")
    rows = [{"name": name, "ratios": [1.1 * BY_NAME[name].published] * 2} for name in names]
    text = "\n".join(page.causes(found.every([], rows)))
    assert text.count(" (1 of 2): ") + text.count(": not known.") == 2
    assert text.count(" (0 of 2): ") >= len(CAUSES) - 2
    assert text.count("| +10.0% | what moves it is not kept |") == 2
    assert len({title for title, _, _ in CAUSES}) == len(CAUSES)


def test_the_overview_has_the_figures_of_the_page() -> None:
    row = page.section(found.every())[0]
    figures = re.match(r"(\d+) ratios: (\d+) within 3%.* error ([\d.]+%), .* timed are (\d+)", row)
    assert figures is not None
    count, within, error, timed = figures.groups()
    said = (
        f"{count} ratios of one machine, {timed} of them of the build that was timed, {error} off, "
        f"{within} of them within 3 %"
    )
    assert said in Path("docs/timing.md").read_text()


def test_every_miss_of_the_records_says_what_moves_it_and_what_is_found() -> None:
    far = [one for one in page.firsts(found.every()) if not one.hit]
    assert all(one.ends for one in far)
    assert not [line for line in page.causes(found.every()) if line.endswith(": not known.")]
    for title, _, text in CAUSES:
        assert "found" in text or "hypothesis" in text, title


def test_changes_of_the_wrong_sign_are_named() -> None:
    by = {"registers 200/88/24, 8K": 1.09, "K and V in 2 stages instead of 3": 1.2,
          "32K over 8K, GB200, causal": 1.1}  # fmt: skip
    rows = [{"name": name, "ratios": [ratio] * 2} for name, ratio in by.items()]
    (line,) = [s for s in page.section(found.every([], rows)) if "other sign" in s]
    assert line == (
        "Of the other sign than published: registers 200/88/24, 8K (+9.0%, published -1.0%)."
    )


def test_the_clock_of_a_time_is_that_of_its_predicted_cycles() -> None:
    curve = clocks.Curve("here", "b200", "causal", {1024: (32, 20.0), 2048: (32, 1.0)})
    _, call = Call(PAIR, Family((128, 128), True), 1024, 32).by(MAY)
    row = {"build": MAY.name, "call": call.name("b200"), "cycles": [30_000, 1]}
    assert list(curve.clocks({found.key_of(row): row})) == [(1024, 1.5)]
    time = clocks.microseconds(Family((128, 128), False), 16384, 32, 1401)
    assert time == pytest.approx(4 * 16384**2 * 128 * 32 / 1401e6)
    table = clocks.section([row])
    assert table[3].startswith("| source | keys | 1K | 2K |")
    assert len(table) == 5 + len(list(clocks.curves()))


class Fixed:
    """A maker whose calls take 1,000 cycles, but 1,100 with a greedy issue."""

    def __init__(self) -> None:
        chip = load_chip("b200")
        self.draws = [chip.draw(number) for number in range(DRAWS + 1)]

    def whole(self, *_: Any) -> Any:
        return SimpleNamespace(cycles=tuple(1000 + 100 * d["greedy"] for d in self.draws))

    def costs(self, *_: Any) -> Any:
        return None, None, SimpleNamespace(instructions=(), compiler="12.9.86")


def test_each_end_of_a_range_is_a_draw_and_kept_where_it_is_felt() -> None:
    maker = with_ends(cast("Maker", Fixed()))
    assert ends_of(maker)[:1] == ["clock_mhz 1650"]
    call = Call(BY_NAME["causal over all keys, 1K"].above.column, Family((128, 128), True), 1024, 2)
    row = predicted(maker, call)
    assert row["ends"] == {"greedy 0": 1000}
    assert len(row["cycles"]) == DRAWS + 1


def test_registers_change_where_the_kernel_has_them() -> None:
    ptx = "".join(f"setmaxnreg.inc.sync.aligned.u32 {n};\n" for n in (192, 80, 48))
    assert [rewritten(ptx, REGISTERS).count(f" {n};") for n in (200, 88, 24, 192)] == [1, 1, 1, 0]
    assert rewritten(ptx, ()) == ptx
    several = (("registers", ((184, 80, 64), (1, 2, 3))), *REGISTERS)
    assert rewritten(ptx, several) == rewritten(ptx, REGISTERS)
    with pytest.raises(ValueError, match=r"registers: .* shall change, and the kernel has"):
        rewritten(ptx.replace("192", "184"), REGISTERS)


def test_a_knob_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="knob 'stages': it is none of kv_stage"), changed(
        (("stages", 2),)
    ):
        pass


def test_the_ladder_says_shares_of_the_fastest_and_what_failed() -> None:
    draws = [1.0] * (ladder.DRAWS + 1)

    def ends(of_l2: tuple[float, float]) -> dict[str, tuple[float, float]]:
        slow = 1.0 + (200 in of_l2)
        return {"l2_bytes": of_l2, "l2_shared_bytes": (100 * slow, 50 * slow)}

    rows: list[dict[str, Any]] = [
        {"name": "v6", "cycles": [200 * d for d in draws], "ends": ends((80, 200))},
        {"name": "v7c", "cycles": [100 * d for d in draws], "ends": ends((100, 100))},
        {"name": "v0", "failed": "ValueError: y"},
    ]
    text = "\n".join(ladder.section(rows))
    assert "the two orders: 1.00 (1.00 to 1.00 over the draws)" in text
    assert "`l2_bytes` at the ends of its range, 8,500 and 11,500: -1.00 and 1.00." in text
    assert "`l2_shared_bytes` at the ends of its range, 68 and 120: 1.00 and 1.00." in text
    assert "In another order: none." in text
    assert "| v6 | persistent | 0.960 | 0.500 | 0.500–0.500 | " in text
    assert "| v0 | mma.sync | 0.308 | ValueError: y | | |" in text
    assert "| v5 | pairs of CTAs | 0.882 | not run | | |" in text
    assert ladder.section(rows, ladder.KITTENS) == ["Not run."]
    rates = ladder.KITTENS
    levels = [
        {"name": n, "cycles": [9000 / rates[n] * d for d in draws], "ends": ends((1, 1))}
        for n in rates
    ]
    text = "\n".join(ladder.section([*rows, *levels], ladder.KITTENS))
    assert "the two orders: 1.00" in text
    assert "| level 7 | a role for each warp, stages | 0.569 | 0.569 | 0.569–0.569 | " in text
    assert ladder.main([]) == ladder.main(["one"]) == 64


def test_the_ladder_names_pairs_in_another_order() -> None:
    cycles = {"v5": 150.0, "v6": 100.0, "v7a": 125.0, "v7b": 125.0}
    assert ladder.order(cycles, ladder.PUBLISHED) == [
        "In another order: v6 and v7a (published 1.6% apart, predicted 20.0%), "
        "v6 and v7b (published 3.4% apart, predicted 20.0%).",
        "As fast as one another here: v7a and v7b (published 1.8% apart, predicted 0.0%).",
    ]
