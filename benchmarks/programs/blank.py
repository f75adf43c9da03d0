"""The command line of ``sm100sim`` with launches that do nothing: whoever judges has to notice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sm100sim.command.main import main
from sm100sim.driver.serve import server
from sm100sim.launch_request import LaunchRequest
from sm100sim.triton import launcher

from .attempt import BLANKED, EVERY


def without(kernel: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, but for the launches of a kernel, or of all if it is EVERY."""

    def instead(request: LaunchRequest, *rest: Any) -> Any:
        if kernel not in (EVERY, request.kernel):
            return run(request, *rest)
        return SimpleNamespace(findings=(), ended=True, grid=(1, 1, 1), cycles=1)

    return instead


if __name__ == "__main__":
    with ExitStack() as stack:
        for module, name in ((server, "_run"), (launcher, "run")):
            put = without(os.environ.get(BLANKED, EVERY), getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, put))
        sys.exit(main())
