"""A plugin of pytest for planted faults: the first failing example is enough, nothing is shrunk."""

from __future__ import annotations


def pytest_configure() -> None:
    """Make it the default of all tests that are read from here on."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("planted", phases=phases, database=None, deadline=None)
    settings.load_profile("planted")
