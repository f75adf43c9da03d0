"""The command line of ``sm100sim`` with launches that do nothing: whoever judges has to notice."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sm100sim.command.main import main
from sm100sim.driver.serve import server
from sm100sim.triton import launcher


def _nothing(*_: Any) -> SimpleNamespace:
    return SimpleNamespace(findings=(), ended=True, grid=(1, 1, 1), cycles=1)


if __name__ == "__main__":
    with ExitStack() as stack:
        for module, name in ((server, "_run"), (launcher, "run")):
            stack.enter_context(mock.patch.object(module, name, _nothing))
        sys.exit(main())
