"""What holds for all tests.

No test meets calls that an earlier one carried out, perhaps with a stand-in for the compiler.
"""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import settings

# Read when torch is imported, here and in programs that tests start. Tests run beside one another
# and their tensors are small: threads that wait for each other would take the cores in turns.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ten thousand tests and their modules are nobody's garbage: looking for it takes a quarter of the
# time in which they are collected.
gc.disable()
# How long an example takes says how busy the machine is.
settings.register_profile("any time", deadline=None)
settings.load_profile("any time")


def pytest_collection_finish() -> None:
    """Look for garbage from here on, but not among what was collected."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let them end: the bindings of the DSL complain of objects that outlive their module."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the calls that are kept, in processes that have made any."""
    calls = sys.modules.get("fa4_cute.host.run.calls")
    if calls is not None:
        calls.kept.clear()
