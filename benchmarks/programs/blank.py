"""The command line of ``sm100sim`` with launches that do nothing: whoever judges has to notice."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sm100sim.command.main import main
from sm100sim.driver.serve import server


def _nothing(*_: Any) -> SimpleNamespace:
    return SimpleNamespace(instructions=0, findings=(), complete=True, verdict="clean")


if __name__ == "__main__":
    with mock.patch.object(server, "_run", _nothing):
        sys.exit(main())
