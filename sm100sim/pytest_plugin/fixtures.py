"""What tests can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .watched import watch_of

if TYPE_CHECKING:
    from ..report import Report


@pytest.fixture
def sm100sim_reports(request: pytest.FixtureRequest) -> list[Report]:
    """The reports of this test's launches so far, in their order; the list grows as it launches.

    A test with this fixture is watched, as one with the marker is.
    """
    watch = watch_of(request.node)
    return [] if watch is None else watch.reports
