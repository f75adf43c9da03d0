"""The pytest plugin: which tests it watches, why they fail, and that it changes no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sm100sim.engine.cache import cache_dir
from tests.sim.calls.test_launch import HEAD
from tests.sim.command.test_main import RACE

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "sm100sim.pytest_plugin", "-p", "no:cacheprovider")
TESTS = """
from pathlib import Path
import numpy as np, pytest, sm100sim
TEXT = Path(__file__).with_name("a.ptx").read_text()
def launch(barrier=""):
    out = np.zeros(64, np.uint32)
    sm100sim.launch(TEXT.replace("BARRIER", barrier), grid=1, args=[out])
    return out
def test_fine():
    launch("bar.sync 0;")
def test_nothing():
    pass
"""
RACY = """
def test_racy():
    launch()
"""
INI = "[pytest]\nsm100sim_activate = false\n"


ROOT = Path(__file__).parents[3]
CACHE = cache_dir()
"""Of the compiled engine; `pytester` gives each test another home."""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SM100SIM_CACHE_DIR", str(CACHE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    source = pytester.path / "kernel.py"
    source.write_text("one\ns[t] = a[t]\no[t] = s[63 - t]\n")
    text = RACE.replace("st.shared", "\n.loc 1 2 0\nst.shared").replace(
        "ld.shared", "\n.loc 1 3 0\nld.shared"
    )
    (pytester.path / "a.ptx").write_text(f'{HEAD}.file 1 "{source}"\n{text}')
    pytester.makeini(INI)
    return pytester


def run(folder: pytest.Pytester, tests: str, *words: str) -> pytest.RunResult:
    folder.makepyfile(TESTS + tests)
    return folder.runpytest_inprocess(*PLUGIN, *words)


def test_without_the_option_nothing_is_watched(folder: pytest.Pytester) -> None:
    result = run(folder, RACY)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("sm100sim: *")


@pytest.mark.parametrize("option", ["--sm100sim", "--sm100sim=late", "--sm100sim=random"])
def test_a_failing_test_shows_the_finding_with_its_source_line(
    folder: pytest.Pytester, option: str
) -> None:
    result = run(folder, RACY, option)
    result.assert_outcomes(passed=2, failed=1)
    mode = option.partition("=")[2] or "timed"
    result.stdout.fnmatch_lines([
        "*_ test_racy _*", "findings of the virtual SM100", "reverse: race-shared: *",
        "*kernel.py:?: *", "*PTX line *: ??.shared*", f"repeat: run_options(mode='{mode}', seed=0)",
        "sm100sim: 2 launches, 1 clean, * findings",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*hooks.py*")


def test_an_unknown_mode_is_refused(folder: pytest.Pytester) -> None:
    result = run(folder, "", "--sm100sim=later")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--sm100sim: mode: 'later' is not one of fast, random, late*"])


MARKED = """
@pytest.mark.sm100sim
def test_marked():
    launch()
@pytest.mark.sm100sim(checks="protocol")
def test_other_checks():
    launch()
@pytest.mark.sm100sim(expect=["race-shared", "uninitialised-shared"])
def test_expected():
    launch()
@pytest.mark.sm100sim(expect="deadlock")
def test_missing():
    launch("bar.sync 0;")
@pytest.mark.sm100sim(max_findings=0)
def test_incomplete():
    launch()
"""


def test_the_marker_watches_and_sets_options(folder: pytest.Pytester) -> None:
    result = run(folder, MARKED, "--strict-markers")
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines(["*_ test_marked _*", "reverse: race-shared: *"])
    result.stdout.fnmatch_lines(["no launch had the expected finding deadlock"])
    result.stdout.fnmatch_lines(["*_ test_incomplete _*", "not everything was seen of reverse"])


SCHEDULES = """
@pytest.mark.sm100sim(schedules=4, checks="none")
@pytest.mark.parametrize("number", [1, 2])
def test_orders(number, sm100sim_reports):
    launch("bar.sync 0;")
    used = sm100sim_reports[0].options
    print("ran", number, used.mode, used.seed)
"""


def test_a_marker_makes_a_test_for_each_order_of_events(folder: pytest.Pytester) -> None:
    result = run(folder, SCHEDULES, "-s", "-v")
    result.assert_outcomes(passed=10)
    orders = {"timed": "timed 0", "fast": "fast 0", "late": "late 0", "random-1": "random 1"}
    for name, order in orders.items():
        for number in (1, 2):
            shown = [line for line in result.outlines if f"ran {number} {order}" in line]
            assert len(shown) == 1
            assert f"test_orders[{number}-{name}]" in shown[0] or f"[{name}-{number}]" in shown[0]
    result = run(folder, SCHEDULES.replace("schedules=4", "schedules=0"))
    result.stdout.fnmatch_lines(["*ValueError: schedules: 0 is less than 1*"])


FIXTURES = """
def test_reports(sm100sim_reports):
    assert sm100sim_reports == []
    launch("bar.sync 0;")
    launch("bar.sync 0;")
    assert [report.verdict for report in sm100sim_reports] == ["clean", "clean"]
    assert sm100sim_reports[0].options.checks == sm100sim.Check.ALL
@pytest.fixture
def prepared():
    launch()
def test_prepared(prepared, sm100sim_reports):
    assert len(sm100sim_reports) == 1
"""


def test_the_fixture_has_the_reports_also_of_other_fixtures(folder: pytest.Pytester) -> None:
    result = run(folder, FIXTURES)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*_ test_prepared _*", "reverse: race-shared: *"])
    result.stdout.fnmatch_lines(["sm100sim: 3 launches, 2 clean, * findings"])


WRONG = """
def test_wrong():
    out = launch()
    assert out[0] == 5
def test_stopped():
    sm100sim.launch(TEXT.replace("BARRIER", "trap;"), grid=1, args=[np.zeros(64, np.uint32)])
@pytest.fixture
def wrong():
    launch()
    raise KeyError("gone")
def test_not_set_up(wrong):
    pass
"""


def test_a_test_that_fails_by_itself_shows_the_findings_too(folder: pytest.Pytester) -> None:
    result = run(folder, WRONG, "--sm100sim")
    result.assert_outcomes(passed=2, failed=2, errors=1)
    result.stdout.fnmatch_lines(["*_ ERROR at setup of test_not_set_up _*", "*KeyError: 'gone'*"])
    for name, why in (("test_wrong", "E * assert *== 5"), ("test_stopped", "E * trap: *")):
        result.stdout.fnmatch_lines(
            [f"*_ {name} _*", why, "*- Captured sm100sim call -*", "reverse: *: *"]
        )


def test_suppressions_and_those_without_use(folder: pytest.Pytester) -> None:
    entry = '[[suppress]]\ncode = "{}"\nreason = "tested"\nfile = "kernel.py"\n'
    codes = ("race-shared", "uninitialised-shared", "race-global")
    Path("ok.toml").write_text("".join(entry.format(code) for code in codes))
    folder.makeini(f"{INI}sm100sim_suppressions = ok.toml\n")
    result = run(folder, RACY, "--sm100sim")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([
        "sm100sim: 2 launches, 2 clean, 0 findings",
        "sm100sim: suppression without use: *ok.toml, entry 3: race-global (kernel.py): tested",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*entry 1*")
    folder.makeini(f"{INI}sm100sim_suppressions = missing.toml\n")
    result = run(folder, RACY)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*sm100sim_suppressions: *missing.toml*"])


def test_arguments_of_the_marker_have_names(folder: pytest.Pytester) -> None:
    result = run(folder, "@pytest.mark.sm100sim('late')\ndef test_late(): launch()\n")
    result.stdout.fnmatch_lines(["*arguments of the marker sm100sim have names*"])


@pytest.mark.slow
def test_other_processes_add_to_the_sums(folder: pytest.Pytester) -> None:
    folder.makepyfile(TESTS + RACY)
    result = folder.runpytest_subprocess(*PLUGIN, "-p", "xdist", "--sm100sim", "-n2")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["sm100sim: 2 launches, 1 clean, * findings"])


@pytest.mark.slow
def test_cute_dsl_programs_run_on_the_virtual_device(folder: pytest.Pytester) -> None:
    folder.makeini("[pytest]\n")
    folder.makepyfile(
        "def test_add(sm100sim_reports):\n"
        "    import torch\n"
        "    from cutlass import Float32\n"
        "    from cutlass.cute.runtime import from_dlpack\n"
        "    from tests.sim.host import programs\n"
        "    x = torch.zeros(64)\n"
        "    programs.add(from_dlpack(x), Float32(2.0))\n"
        "    assert (x == 2).all()\n"
        "    assert [r.verdict for r in sm100sim_reports] == ['clean']\n"
    )
    result = folder.runpytest_subprocess(*PLUGIN, "--sm100sim", "--import-mode=importlib")
    result.assert_outcomes(passed=1)


def test_the_distribution_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "sm100sim" / "pyproject.toml").read_text())["project"]
    # One name for `-p sm100sim.pytest_plugin` and the entry point: pytest loads it once.
    name = "sm100sim.pytest_plugin"
    assert project["entry-points"]["pytest11"] == {name: name}
    assert project["scripts"] == {"sm100sim": "sm100sim.command.main:main"}


@pytest.mark.slow
def test_the_repository_s_own_tests_run_as_they_do_without_it() -> None:
    words = ["tests/sim/test_report.py", "-q", "-p", "no:cacheprovider", "--no-header"]
    done = [
        subprocess.run(
            [sys.executable, "-m", "pytest", *words, *more], cwd=ROOT, capture_output=True,
            text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for more in (PLUGIN[:0], PLUGIN[:2])
    ]  # fmt: skip
    assert [one.returncode for one in done] == [0, 0], done[1].stdout
    counts = [re.findall(r"^(\d+ passed)", one.stdout, re.MULTILINE) for one in done]
    assert counts[0] == counts[1] != []
    assert "sm100sim:" not in done[1].stdout


def test_a_run_that_asks_for_nothing_imports_next_to_nothing() -> None:
    code = "import sys, sm100sim.pytest_plugin; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    loaded = done.stdout.split()
    assert "numpy" not in loaded
    own = [name for name in loaded if name.startswith("sm100sim")]
    assert [name for name in own if "pytest_plugin" not in name] == ["sm100sim"]
