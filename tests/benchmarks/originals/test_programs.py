"""Environments and programs of Modular's releases; one real comparison where max-core is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.originals import machine_code, programs
from benchmarks.originals.cases import CASES, Original
from benchmarks.originals.compare import compared

MOVE = (
    ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
    "{\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [p];\nst.global.b32 [%rd1], 7;\nret;\n}\n"
)


def test_a_program_is_known_by_its_source_and_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "mojo"
    sources.mkdir()
    monkeypatch.setattr(programs, "SOURCES", sources)
    for name in ("raw_files", "dense"):
        (sources / f"{name}.mojo").write_text(name)

    def place(**defines: int) -> Path:
        return programs.place("26.7", "dense", defines)

    first = place(depth=64, heads=2)
    assert first == place(heads=2, depth=64)
    assert first != place(heads=2, depth=128)
    assert first != programs.place("26.6", "dense", {"depth": 64, "heads": 2})
    (sources / "dense_26_7.mojo").write_text("of one release")
    assert first != place(depth=64, heads=2)
    assert programs.source("26.6", "dense").name == "dense.mojo"
    (sources / "dense_26_7.mojo").unlink()
    assert first == place(depth=64, heads=2)
    (sources / "raw_files.mojo").write_text("changed")
    assert first != place(depth=64, heads=2)


def test_code_without_a_softmax_has_no_loop() -> None:
    assert machine_code.loops_of([]) == []


@pytest.mark.skipif(machine_code.assembler() is None, reason="ptxas is not installed")
def test_facts_of_ptx() -> None:
    facts = machine_code.facts_of_ptx(MOVE)
    assert facts.instructions > 3
    assert (facts.spills, facts.t1) == (0, 0)


def _here(original: Original) -> bool:
    """Whether it can run without minutes of compilation."""
    return all(
        programs.place(release, original.program, original.definitions).is_file()
        for release in original.releases
    )


SMALL = [case for case in CASES if case.name in ("2Q d128 causal", "MLA decode 576/512")]


@pytest.mark.parametrize("original", SMALL, ids=lambda case: case.name)
def test_modulars_kernel_is_right(original: Original) -> None:
    if not _here(original):
        pytest.skip("Modular's kernels are not built here: make originals")
    row = compared(original)
    assert tuple(row.theirs) == original.releases
    for side in row.theirs.values():
        assert side.max_error < 2e-2
        assert side.launches[0].instructions > 0
        if original.program == "dense":  # docs/findings/modular_2q_last_p.md
            assert {"race-tmem", "mbarrier-phase-overrun"} <= set(side.launches[0].findings)
        if row.ours is not None:
            assert side.max_error == pytest.approx(row.ours.max_error, rel=0.5)
            assert side.equal is not None
            assert side.equal > 0.9
