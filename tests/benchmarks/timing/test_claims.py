"""Published ratios, the variants that they compare, and the ladder's order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.timing import claims, ladder
from benchmarks.timing.claims import CLAIMS, Claim
from benchmarks.timing.side_by_side.rows import Family, Maker
from benchmarks.timing.side_by_side.variants import KNOBS, changed, rewritten

REGISTERS = (("registers", ((192, 80, 48), (200, 88, 24))),)


def test_names_are_unique_and_each_stands_in_a_table() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.group for claim in CLAIMS} == set(claims.GROUPS)
    assert all(0.3 < claim.published < 4 for claim in CLAIMS)
    knobs = {name for c in CLAIMS for call in (c.above, c.below) for name, _ in call.column.changes}
    assert knobs == set(KNOBS)


def test_ratios_of_tflops_are_ratios_of_times() -> None:
    found = {claim.name: claim for claim in CLAIMS}
    assert found["K and V in 2 stages instead of 3"].published == pytest.approx(1.0374, abs=1e-4)
    curve = found["4K over 16K, 32K tokens, first machine"]
    assert curve.published == pytest.approx(1882 / 1796)
    assert curve.work == 0.25
    assert curve.above.heads * curve.above.length == curve.below.heads * curve.below.length


class Fixed:
    """A maker whose kernels take cycles in proportion to their keys."""

    def whole(self, _column: Any, family: Family, length: int, heads: int) -> Any:
        cycles = length * length * heads / (2 if family.causal else 1)
        return SimpleNamespace(cycles=(cycles, 2 * cycles))


def test_a_claim_compares_two_calls_draw_by_draw() -> None:
    maker = cast("Maker", Fixed())
    for claim in CLAIMS:
        found = claims.predicted(maker, claim)
        if claim.group == "lengths":
            assert found["ratios"] == [1, 1]
        if claim.group == "masks":
            assert found["ratios"] == [0.5, 0.5]


def test_hits_and_misses_are_counted() -> None:
    rows = [{"name": claim.name, "ratios": [claim.published, 1.0, 1.0]} for claim in CLAIMS[:2]]
    rows.append({"name": CLAIMS[2].name, "ratios": [CLAIMS[2].published * 1.1] * 3})
    text = "\n".join(claims.section(rows))
    assert text.startswith("3 ratios: 2 within 3% of what was published, 0 with")
    assert "Mean size of the error 3.3%" in text
    assert text.count("not run") == len(CLAIMS) - 3
    published = CLAIMS[2].published
    assert f"| {CLAIMS[2].name} | {published:.3f} | {published * 1.1:.3f} |" in text
    assert all(isinstance(claim, Claim) for claim in CLAIMS)


def test_registers_change_where_the_kernel_has_them() -> None:
    ptx = "".join(f"setmaxnreg.inc.sync.aligned.u32 {n};\n" for n in (192, 80, 48))
    assert [rewritten(ptx, REGISTERS).count(f" {n};") for n in (200, 88, 24, 192)] == [1, 1, 1, 0]
    assert rewritten(ptx, ()) == ptx
    with pytest.raises(ValueError, match=r"registers: .* shall change, and the kernel has"):
        rewritten(ptx.replace("192", "184"), REGISTERS)


def test_a_knob_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="knob 'stages': it is none of kv_stage"), changed(
        (("stages", 2),)
    ):
        pass


def test_the_ladder_says_shares_of_the_fastest_and_what_failed() -> None:
    draws = [1.0] * (ladder.DRAWS + 1)
    rows: list[dict[str, Any]] = [
        {"name": "v6", "cycles": [200 * d for d in draws]},
        {"name": "v7c", "cycles": [100 * d for d in draws]},
        {"name": "v0", "failed": "ValueError: y"},
    ]
    text = "\n".join(ladder.section(rows))
    assert "the two orders: 1.00 (1.00 to 1.00 over the draws)" in text
    assert "| v6 | persistent | 0.960 | 0.500 | 0.500–0.500 | " in text
    assert "| v0 | mma.sync | 0.308 | ValueError: y | | |" in text
    assert "| v5 | pairs of CTAs | 0.882 | not run | | |" in text
    assert ladder.section(rows, ladder.KITTENS) == ["Not run."]
    rates = ladder.KITTENS
    levels = [{"name": n, "cycles": [9000 / rates[n] * d for d in draws]} for n in rates]
    text = "\n".join(ladder.section([*rows, *levels], ladder.KITTENS))
    assert "the two orders: 1.00" in text
    assert "| level 7 | a role for each warp, stages | 0.569 | 0.569 | 0.569–0.569 | " in text
    assert ladder.main([]) == ladder.main(["one"]) == 64
