"""Forms that the ISA does not have: one test of a family's statements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sm100sim.ptx.errors import PtxError
from testing.harness import run_ptx


def refused(*statements: str) -> Callable[[str], None]:
    """A test of each statement: the run does not begin, and the message names the line."""

    @pytest.mark.parametrize("statement", statements)
    def test(statement: str) -> None:
        with pytest.raises(PtxError, match="line"):
            run_ptx(statement)

    return test
