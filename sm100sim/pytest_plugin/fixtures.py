"""What tests can ask for."""

from __future__ import annotations

import pytest

from ..report import Report
from .watched import watch_of


@pytest.fixture
def sm100sim_reports(request: pytest.FixtureRequest) -> list[Report]:
    """The reports of this test's launches so far, in their order; the list grows as it launches.

    A test with this fixture is watched, as one with the marker is.
    """
    watch = watch_of(request.node)
    return [] if watch is None else watch.reports
