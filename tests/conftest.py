"""No test meets calls that an earlier one carried out, perhaps with a stand-in for the compiler."""

from __future__ import annotations

import os
import sys

import pytest

# Read when torch is imported, here and in programs that tests start. Tests run beside one another
# and their tensors are small: threads that wait for each other would take the cores in turns.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the calls that are kept, in processes that have made any."""
    calls = sys.modules.get("fa4_cute.host.run.calls")
    if calls is not None:
        calls.kept.clear()
