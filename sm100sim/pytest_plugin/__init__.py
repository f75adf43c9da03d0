"""Launches of tests under checks: a plugin for pytest, `pytest --sm100sim`.

Without the option, the marker and the fixture it changes nothing.
"""

from .fixtures import sm100sim_reports
from .hooks import (
    pytest_addoption,
    pytest_configure,
    pytest_generate_tests,
    pytest_runtest_call,
    pytest_runtest_setup,
)

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_call",
    "pytest_runtest_setup",
    "sm100sim_reports",
]
