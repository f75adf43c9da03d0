"""The hooks of pytest; the simulator is imported when a test is watched, and not before."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .totals import Totals
from .watched import NAME, ORDER, RULES, SCHEDULES, Watch, watch_of

if TYPE_CHECKING:
    from ..findings.suppress import Suppression

MARKER = (
    f"{NAME}(expect=(), schedules=None, **options): run the test's launches under all checks, or "
    "with other fields of RunOptions; `expect` names findings that they must have; `schedules` "
    "makes a test for each of so many orders of events"
)
SUPPRESSIONS, ACTIVATE = "sm100sim_suppressions", "sm100sim_activate"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--sm100sim` and the settings."""
    group = parser.getgroup(NAME, "virtual SM100")
    group.addoption(
        f"--{NAME}", nargs="?", const="timed", default=None, metavar="MODE",
        help="run the launches of all tests under all checks; tests with findings fail. "
        "MODE says when asynchronous work lands: timed, fast, random or late",
    )  # fmt: skip
    parser.addini(SUPPRESSIONS, "TOML file of findings that are accepted, below the root directory")
    parser.addini(
        ACTIVATE, "with --sm100sim, take the device's place under the CuTe DSL if it is installed",
        type="bool", default=True,
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings, and take the device's place if that is asked for."""
    config.addinivalue_line("markers", MARKER)
    config.stash[RULES] = _suppressions(config)
    config.pluginmanager.register(Totals(config.stash[RULES]), f"{NAME}-totals")
    mode = config.getoption(f"--{NAME}")
    if mode is not None:
        _prepare(mode, config)


def _prepare(mode: str, config: pytest.Config) -> None:
    from ..host.activation import ActivationError, activate
    from ..options import RunOptions

    try:
        RunOptions(mode=mode)  # type: ignore[arg-type]  # refused there if wrong
        if config.getini(ACTIVATE) and importlib.util.find_spec("cutlass") is not None:
            activate()
    except (ActivationError, ValueError) as error:
        raise pytest.UsageError(f"--{NAME}: {error}") from error


def _suppressions(config: pytest.Config) -> Sequence[Suppression]:
    name = config.getini(SUPPRESSIONS)
    if not name:
        return ()
    from ..findings.suppress import suppressions_of

    try:
        return suppressions_of(Path(config.rootpath, name))
    except (OSError, TypeError, ValueError) as error:
        raise pytest.UsageError(f"{SUPPRESSIONS}: {error}") from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each order of events that a marker asks for."""
    marker = metafunc.definition.get_closest_marker(NAME)
    count = marker.kwargs.get(SCHEDULES) if marker is not None else None
    if count is not None:
        from ..calls.explore import orders

        made = orders(count)
        names = [f"{mode}-{seed}" if mode == "random" else mode for mode, seed in made]
        metafunc.fixturenames.append(ORDER)
        metafunc.parametrize(ORDER, made, ids=names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Watch the launches of a test's fixtures."""
    watch = watch_of(item)
    if watch is None:
        yield
    else:
        yield from _recording(item, watch, "setup")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Watch the launches of a test, and fail it for what they say."""
    watch = watch_of(item)
    if watch is None:
        yield
        return
    try:
        yield from _recording(item, watch, "call")
    finally:
        item.user_properties.append((NAME, watch.totals(item.config.stash[RULES])))
    complaint = watch.complaint()
    if complaint:
        pytest.fail(complaint, pytrace=False)


def _recording(item: pytest.Item, watch: Watch, when: str) -> Generator[None, None, None]:
    from ..options import run_options
    from ..report import record

    try:
        ruled = run_options(everywhere=True, **watch.options)
        with ruled, record(watch.reports, everywhere=True):
            yield
    except BaseException:
        if watch.unexpected:
            item.add_report_section(when, NAME, watch.said())
        raise
