"""Files of reports: formats by suffix, and what the JSON document holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sm100sim
from sm100sim.formats.save import FORMATS, SUFFIXES, rendered, results_of
from testing.harness import run_ptx
from tests.sim.formats.launches import race, stopped


def test_json_holds_findings_suppressions_options_and_hot_spots(tmp_path: Path) -> None:
    rule = sm100sim.Suppression("race-shared", "tested", file="kernel*", line=2, origin="here")
    reports = [race(tmp_path, mode="random", seed=3), race(tmp_path, suppressions=rule)]
    path = sm100sim.save(reports, tmp_path / "out.json", program="x.py")
    document = json.loads(path.read_text())
    assert document["tool"]["name"] == "sm100sim"
    assert (document["program"], document["verdict"]) == ("x.py", "findings")
    first, second = document["launches"]
    assert (first["verdict"], second["verdict"]) == ("findings", "clean")
    assert first["options"] == {"mode": "random", "seed": 3, "checks": ["RACES"]}
    assert len(first["findings"]) == len(reports[0].findings)
    assert first["findings"][0]["place"]["text"] in ("s[t] = a[t]", "o[t] = s[63 - t]")
    assert first["hot_spots"][0]["source"]
    assert second["suppressed"][0]["reason"] == "tested"
    assert second["suppressed"][0]["finding"]["code"] == "race-shared"
    assert "exit_code" not in document


def test_an_exploration_brings_its_schedules(tmp_path: Path) -> None:
    def once() -> None:
        race(tmp_path, mode=sm100sim.options.current_options().mode)
        raise AssertionError("wrong values")

    found = sm100sim.explore(once, schedules=2)
    document = json.loads(sm100sim.save(found, tmp_path / "out.json").read_text())
    assert [s["mode"] for s in document["schedules"]] == ["timed", "fast"]
    assert {s["error"] for s in document["schedules"]} == {"AssertionError: wrong values"}
    assert len(document["launches"]) == 2
    assert sm100sim.save(found, tmp_path / "out.txt").read_text() == found.summary() + "\n"


def test_a_file_s_suffix_names_the_format(tmp_path: Path) -> None:
    report = race(tmp_path)
    for suffix, name in SUFFIXES.items():
        text = sm100sim.save(report, tmp_path / f"out{suffix}").read_text()
        assert text == rendered(results_of(report), name)
        assert sm100sim.save(report, tmp_path / "out.log", name).read_text() == text
    assert set(SUFFIXES.values()) == set(FORMATS)
    assert rendered(results_of([report, report]), "text") == 2 * f"{report.summary()}\n"


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'out.html' names no format; suffixes are .txt"):
        sm100sim.save([], "out.html")
    with pytest.raises(ValueError, match="format: 'yaml' is not one of text, json"):
        sm100sim.save([], tmp_path / "out.txt", "yaml")


def test_the_worst_verdict_is_that_of_the_document(tmp_path: Path) -> None:
    verdicts = {
        "incomplete": [], "clean": [run_ptx("")], "findings": [run_ptx(""), stopped(tmp_path)],
    }  # fmt: skip
    for verdict, reports in verdicts.items():
        assert json.loads(rendered(results_of(reports), "json"))["verdict"] == verdict
