"""Faults in the source: every one has its place and something that has to kill it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import source_mutants
from benchmarks.source_anchors import AnchorError, Edit, Fault, Sources
from benchmarks.source_faults import FAULTS
from benchmarks.source_faults.record import ROOT, read, resolved
from benchmarks.source_mutants import COPIED
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


def test_an_edit_has_the_code_of_its_function_without_layout(tmp_path: Path) -> None:
    def code(place: str, old: str, folder: str, text: str = SOURCE) -> str:
        found = sources(tmp_path / folder, one=text).edit(Fault(place, old, "0", (), nth=1))
        return found.function

    box = code("one.Box.scaled", "x", "a")
    assert box == "def scaled(self, x: int):\n    return x * self.by + x * self.by".replace(
        "):", ") -> int:"
    )
    module = code("one.<module>", "2 + 3", "b")
    assert "LIMIT = 2 + 3" in module
    assert "scaled" not in module
    elsewhere = SOURCE.replace("log(x)", "log(by)  # why").replace("\n            *", " *")
    assert code("one.Box.scaled", "x", "c", elsewhere) == box
    one = code("one.scaled", "wide", "d", SOURCE.replace("log(x)", "log(x)  # why"))
    assert one == code("one.scaled", "wide", "e") != code("one.scaled", "wide", "f", elsewhere)


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


def test_each_fault_has_a_line_of_its_own() -> None:
    """Verdicts are kept by it: of equal pieces of a function one would answer for the others."""
    assert len(set(map(str, FAULTS))) == len(FAULTS)


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


def found_in(**numbers: int) -> list[tuple[Fault, Edit]]:
    return [
        (Fault(f"{storey}.f{n}", "x", "y", ("2q",)), Edit(f"fa4_cute/{storey}/a.py", n, 0, 1, b""))
        for storey, number in numbers.items()
        for n in range(number)
    ]


def test_a_sample_takes_storeys_by_turns_and_a_larger_one_goes_on() -> None:
    found = found_in(roles=30, output=5, plan=10)
    some = source_mutants.sampled(found, 12, seed=1)
    assert Counter(edit.path.split("/")[1] for _, edit in some) == dict.fromkeys(
        ("roles", "output", "plan"), 4
    )
    assert source_mutants.sampled(found, 40, seed=1)[:12] == some
    assert source_mutants.sampled(found, 12, seed=2) != some
    every = source_mutants.sampled(found, 100, seed=1)
    assert len(every) == len(set(map(str, (fault for fault, _ in every)))) == 45
    assert source_mutants.sampled([], 3, seed=1) == []


def test_a_run_that_was_cut_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verdict is written when its trial ends, is kept by the next run, and still counts."""
    faults = [Fault("hardware.align_up", old, "0", ("2q",)) for old in ("unit", "value", "rest")]
    found = [
        (fault, Edit("fa4_cute/tma.py", n, 0, 1, b"", "as it was"))
        for n, fault in enumerate(faults)
    ]
    tried, verdicts = [], tmp_path / "record.jsonl"

    def trial(edit: Edit, killers: tuple[str, ...]) -> tuple[str | None, float]:
        assert killers == ("2q",)
        tried.append(edit.line)
        return None, 0.1

    monkeypatch.setattr(source_mutants, "FAULTS", tuple(faults))
    monkeypatch.setattr(source_mutants, "resolved", lambda _: (found, []))
    monkeypatch.setattr(source_mutants, "trial", trial)
    monkeypatch.setattr(source_mutants, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    line = ["--trust", "--resume", "--record", str(verdicts)]
    assert source_mutants.main([*line, "--sample", "1"]) == 1
    assert "1 to try, 0 kept" in capsys.readouterr().out
    assert len(verdicts.read_text().splitlines()) == len(tried) == 1
    again = tried.pop()
    found[again] = (faults[again], replace(found[again][1], function="another"))
    assert source_mutants.main(line) == 1
    printed = capsys.readouterr().out
    assert "3 to try, 0 kept" in printed
    assert "0 of 3 killed, 0 argued, 3 unexplained" in printed
    assert tried[-1] == again  # those without any verdict come first
    assert [row["fault"] for row in read(verdicts).values()] == list(map(str, faults))
    assert len(verdicts.read_text().splitlines()) == 3
    assert source_mutants.main(line) == 1
    assert "0 to try, 3 kept" in capsys.readouterr().out
    assert len(tried) == 3


def test_what_kills_without_a_fault_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = found_in(roles=1)
    monkeypatch.setattr(source_mutants, "resolved", lambda _: (found, []))
    monkeypatch.setattr(source_mutants, "clean", lambda names: {names[0]: f"{names[0]}: wrong"})
    monkeypatch.setattr(source_mutants, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    with pytest.raises(SystemExit, match="1"):
        source_mutants.main(["--record", str(tmp_path / "record.jsonl")])
    assert "FAILS WITHOUT A FAULT 2q: wrong" in capsys.readouterr().out
    assert read(tmp_path / "record.jsonl") == {}


def test_a_fault_without_a_place_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(source_mutants, "FAULTS", (Fault("load.gone", "x", "y", ("2q",)),))
    assert source_mutants.main([]) == 1
    assert "NO PLACE load.gone: x  ->  y: no such function" in capsys.readouterr().out
