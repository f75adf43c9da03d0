"""No test meets calls that an earlier one carried out, perhaps with a stand-in for the compiler."""

from __future__ import annotations

import sys

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the calls that are kept, in processes that have made any."""
    calls = sys.modules.get("fa4_cute.host.run.calls")
    if calls is not None:
        calls.kept.clear()
