"""Calls of which everything is done but the launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, simulator


@contextmanager
def no_launch() -> Iterator[None]:
    """Compile and launch nothing; all else is done."""
    artifact = SimpleNamespace(ptx="", cubin=b"", kernel_name="kernel")
    nothing = (lambda: None), (lambda *_: None)
    with ExitStack() as stack:
        replace = stack.enter_context
        replace(mock.patch.object(cache, "compiled", return_value=artifact))
        replace(mock.patch.object(simulator, "launch"))
        replace(mock.patch.object(calls, "_repeat_on", return_value=lambda *_: nothing))
        replace(mock.patch.object(calls, "kept", calls.Kept()))
        yield
