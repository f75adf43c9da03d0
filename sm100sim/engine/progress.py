"""What a long launch says meanwhile: one line on a terminal, a bar in a notebook, else a log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Protocol

AFTER_SECONDS = 2.0
"""Shorter launches say nothing."""
LISTEN_SECONDS = 0.1
"""A signal may arrive in any thread; the main thread hears of it when it wakes."""
LINE_SECONDS = 0.5
LOG_SECONDS = 10.0
NAME_CHARACTERS = 40


class Progress(Protocol):
    """How far a launch is, while other threads work on it."""

    @property
    def clusters(self) -> int:
        """Clusters that have ended."""

    @property
    def instructions(self) -> int:
        """Warp instructions that have been executed."""


class Ended(Protocol):
    """The end of a launch, as a `threading.Event` or like one."""

    def wait(self, timeout: float) -> bool:
        """Wait for it so many seconds at most; whether it has come."""

    def is_set(self) -> bool:
        """Whether it has come."""


class Display(Protocol):
    """A way to show progress."""

    every: float
    """Seconds between two updates."""

    def update(self, clusters: int, words: str) -> None:
        """Show that `clusters` have ended; `words` say the same and more."""

    def close(self) -> None:
        """The launch has ended."""


def _write(text: str, end: str) -> None:
    """To standard error, if there is one; a closed pipe does not end a launch."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(text, end=end, file=sys.stderr, flush=True)


class Line:
    """One line of a terminal, written again and again."""

    every = LINE_SECONDS

    def update(self, clusters: int, words: str) -> None:
        """Replace the line."""
        _write(f"\r{words}", end="\x1b[K")

    def close(self) -> None:
        """Take the line away."""
        _write("\r\x1b[K", end="")


class Log:
    """A line now and then, for pipes and files."""

    every = LOG_SECONDS

    def update(self, clusters: int, words: str) -> None:
        """One more line."""
        _write(words, end="\n")

    def close(self) -> None:
        """Nothing to take away."""


class Bar:
    """A bar of `tqdm`, which draws itself in notebooks."""

    every = LINE_SECONDS

    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def update(self, clusters: int, words: str) -> None:
        """Move the bar."""
        self.bar.update(clusters - self.bar.n)

    def close(self) -> None:
        """Take the bar away."""
        self.bar.close()


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display(name: str, total: int) -> Display:
    """What suits the place that standard error goes to."""
    if in_notebook():
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return Log()
        return Bar(tqdm(total=total, desc=f"sm100sim {name}", unit=" clusters", leave=False))
    return Line() if sys.stderr is not None and sys.stderr.isatty() else Log()


def _words(name: str, progress: Progress, total: int, seconds: float) -> str:
    finished = progress.clusters
    left = f"{seconds / finished * (total - finished):.0f} s left" if finished else "first tile"
    return (
        f"sm100sim {name}: {finished}/{total} clusters, "
        f"{progress.instructions / seconds:,.0f} warp instructions/s, {left}"
    )


def wait_and_show(ended: Ended, name: str, progress: Progress, total: int) -> None:
    """Wait for the end of a launch, and show how far it is when that takes long.

    Args:
        ended: set at the launch's end.
        name: of the kernel.
        progress: what the engine writes.
        total: clusters of the launch.
    """
    start = time.monotonic()
    if _ends(ended, AFTER_SECONDS):
        return
    name = name[:NAME_CHARACTERS]
    shown = display(name, total)
    try:
        while not _ends(ended, shown.every):
            words = _words(name, progress, total, time.monotonic() - start)
            shown.update(progress.clusters, words)
    finally:
        shown.close()


def _ends(ended: Ended, seconds: float) -> bool:
    """Whether the event is set within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ended.wait(LISTEN_SECONDS):
            return True
    return ended.is_set()
