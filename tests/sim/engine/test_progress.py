"""What a long launch says meanwhile, on a terminal, in a pipe and in a notebook."""

from __future__ import annotations

import io
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sm100sim.contract.records import Progress
from sm100sim.engine import progress
from sm100sim.engine.progress import wait_and_show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock(threading.Event):
    """Ends after some seconds of a time that passes only while somebody waits for it."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.now, self.end, self.longest = 0.0, end, 0.0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.longest = max(self.longest, timeout)
        self.now += timeout
        return self.is_set()

    def is_set(self) -> bool:
        return self.now >= self.end


def shown(monkeypatch: pytest.MonkeyPatch, stream: Any, seconds: float) -> Clock:
    """A launch of so many seconds."""
    event = Clock(seconds)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("sm100sim.engine.progress.time.monotonic", lambda: event.now)
    wait_and_show(event, "kernel", Progress(clusters=3, instructions=500), 12)
    return event


def test_a_pipe_gets_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    event = shown(monkeypatch, stream, 25.0)
    first, second = stream.getvalue().splitlines()
    assert first == "sm100sim kernel: 3/12 clusters, 41 warp instructions/s, 36 s left"
    assert second.startswith("sm100sim kernel: 3/12 clusters, 2")
    assert event.longest <= 0.2, "an interrupt is heard soon, in whichever thread it arrived"


def test_a_short_launch_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    shown(monkeypatch, stream, 1.9)
    assert stream.getvalue() == ""


def test_a_terminal_has_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    shown(monkeypatch, stream, 3.8)
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().count("3/12 clusters") == 3
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_lost_stream_does_not_end_a_launch(
    monkeypatch: pytest.MonkeyPatch, stream: str | None
) -> None:
    pipe = None
    if stream:
        pipe = io.StringIO()
        pipe.close()
    if pipe is None:
        assert shown(monkeypatch, None, 25.0).is_set()
    else:
        monkeypatch.setattr(pipe, "isatty", lambda: False, raising=False)
        assert shown(monkeypatch, pipe, 25.0).is_set()


def test_a_notebook_has_a_bar_of_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    bars = []

    class Bar:
        def __init__(self, **settings: Any) -> None:
            self.settings, self.n, self.closed = settings, 0, False
            bars.append(self)

        def update(self, more: int) -> None:
            self.n += more

        def close(self) -> None:
            self.closed = True

    notebook: Any = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())
    auto: Any = ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    stream = io.StringIO()
    shown(monkeypatch, stream, 4.0)
    (bar,) = bars
    assert (bar.n, bar.closed, bar.settings["total"]) == (3, True, 12)
    assert stream.getvalue() == ""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    shown(monkeypatch, stream, 13.0)
    assert "3/12 clusters" in stream.getvalue(), "without tqdm as in a pipe"


def test_a_shell_without_a_kernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shell: Any = ModuleType("IPython")
    shell.get_ipython = SimpleNamespace
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert not progress.in_notebook()
