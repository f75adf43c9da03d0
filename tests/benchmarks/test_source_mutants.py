"""Faults in the source: every one has its place and something that has to kill it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import source_mutants
from benchmarks.source_anchors import AnchorError, Edit, Fault, Sources
from benchmarks.source_faults import FAULTS
from benchmarks.source_mutants import COPIED, ROOT, resolved
from testing.probes import PROBES

SOURCE = '''"""A module."""
LIMIT = 2 + 3

def scaled(x: int, by: int) -> str:
    wide = (x
            * by)
    log(x)
    return f"ld.{wide} [$0];" if x*by > LIMIT else "x*by"

class Box:
    def scaled(self, x: int) -> int:
        return x * self.by + x * self.by
'''


def sources(folder: Path, **files: str) -> Sources:
    package = folder / "package"
    (package / "deep").mkdir(parents=True)
    for name, text in files.items():
        (package / "deep" / f"{name}.py").write_text(text)
    return Sources(package)


def changed(folder: Path, old: str, new: str, place: str = "one.scaled", nth: int = 0) -> str:
    edit = sources(folder, one=SOURCE).edit(Fault(place, old, new, (), nth=nth))
    assert edit.path == "package/deep/one.py"
    return edit.applied(SOURCE.encode()).decode()


def test_an_expression_is_found_however_it_is_written(tmp_path: Path) -> None:
    assert "return f\"ld.{wide} [$0];\" if x - 1 > LIMIT" in changed(
        tmp_path / "a", "x * by", "x - 1", nth=2
    )
    assert "wide = (0)" in changed(tmp_path / "b", "x*by", "0", nth=1)


def test_a_statement_can_be_removed_and_text_replaced(tmp_path: Path) -> None:
    assert "    pass\n    return" in changed(tmp_path / "a", "log(x)", "pass")
    assert "[$1];" in changed(tmp_path / "b", "[$0];", "[$1];")
    assert "LIMIT = 7" in changed(tmp_path / "c", "2 + 3", "7", "one.<module>")
    assert "return 1 + x * self.by" in changed(
        tmp_path / "d", "x * self.by", "1", "one.Box.scaled", nth=1
    )


@pytest.mark.parametrize(
    ("place", "old", "problem"),
    [
        ("one.gone", "x", "no such function"),
        ("one.scaled", "x // by", "0 functions fit"),
        ("one.scaled", "x * by", "stands there 2 times"),
        ("other.Box.scaled", "self.by", "stands there 2 times"),
    ],
)
def test_a_place_that_is_not_found_or_not_the_only_one(
    tmp_path: Path, place: str, old: str, problem: str
) -> None:
    with pytest.raises(AnchorError, match=problem):
        sources(tmp_path, one=SOURCE).edit(Fault(place, old, "0", ()))


def test_the_module_decides_between_functions_of_one_name(tmp_path: Path) -> None:
    both = sources(tmp_path, one=SOURCE, two=SOURCE)
    assert both.edit(Fault("two.scaled", "log(x)", "pass", ())).path == "package/deep/two.py"
    with pytest.raises(AnchorError, match="0 functions fit"):
        both.edit(Fault("three.scaled", "log(x)", "pass", ()))


@pytest.mark.slow
def test_every_fault_has_its_place_and_changes_python() -> None:
    found, problems = resolved(FAULTS)
    assert problems == []
    places = Counter((edit.path, edit.start, edit.stop, edit.new) for _, edit in found)
    assert max(places.values()) == 1
    for _, edit in found:
        compile(edit.applied((ROOT / edit.path).read_bytes()), edit.path, "exec")


@pytest.mark.slow
def test_faults_cover_the_storeys() -> None:
    found, _ = resolved(FAULTS)
    storeys = Counter(edit.path.split("/")[1] for _, edit in found)
    assert len(FAULTS) >= 330
    assert all(storeys[name] >= 25 for name in ("roles", "output", "operands", "work", "device"))
    assert storeys["plan"] >= 40
    assert storeys["sync"] >= 5


def test_what_has_to_kill_exists() -> None:
    for fault in FAULTS:
        assert fault.killers, fault
        for name in fault.killers:
            path = name.partition("::")[0]
            assert name in PROBES or (ROOT / path).exists(), fault
            assert name in PROBES or path.split("/")[0] in COPIED, fault


@pytest.mark.slow
def test_what_has_to_kill_is_part_of_make_test() -> None:
    """A test that finds a fault may not become one that only widens the search."""
    killers = {name for fault in FAULTS for name in fault.killers if name not in PROBES}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
         "-m", "not exhaustive", *sorted(killers)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    lost = {name for name in killers if not any(line.startswith(name) for line in collected)}
    assert killers
    assert not lost


def test_an_argued_survivor_has_an_argument() -> None:
    argued = [fault for fault in FAULTS if fault.reason]
    assert argued
    assert all(len(fault.reason.split()) > 8 for fault in argued)


def test_verdicts() -> None:
    edit = Edit("a.py", 1, 0, 1, b"")
    plain, argued = Fault("a.f", "x", "y", ()), Fault("a.f", "x", "y", (), reason="why")
    verdicts = [
        source_mutants._row(fault, edit, how, 0.1)["verdict"]
        for fault in (plain, argued)
        for how in ("2q: wrong", None)
    ]
    assert verdicts == ["killed", "SURVIVES", "KILLED ALTHOUGH ARGUED", "argued"]


def test_a_fault_without_a_place_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source_mutants, "FAULTS", (Fault("load.gone", "x", "y", ("2q",)),))
    assert source_mutants.main([]) == 1
    assert "NO PLACE load.gone: x  ->  y: no such function" in capsys.readouterr().out
