"""Counts launches, so that a test sees who computed."""

from __future__ import annotations

from typing import Any

import pytest

from fa4_cute.host.run import simulator


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that were launched; clear it between two questions."""
    names: list[str] = []
    launch = simulator.launch

    def counted(ptx: Any, name: str, *rest: Any, **options: Any) -> Any:
        names.append(name)
        return launch(ptx, name, *rest, **options)

    monkeypatch.setattr(simulator, "launch", counted)
    return names
