"""Hot spots by source line: which line an instruction counts for."""

from __future__ import annotations

from sm100sim.ptx.places import SourcePlace
from sm100sim.timing.profile.spots import UNNAMED, source_key

OWN = SourcePlace("/home/me/kernel.py", 40, 4, "total = helper(x)")
PACKAGE = "/venv/lib/python3.11/site-packages/some/arith.py"


def test_the_program_s_own_line_stands_for_what_is_inlined_there() -> None:
    inner = SourcePlace(PACKAGE, 7, 2, "return raw(x)")
    chain = SourcePlace(PACKAGE, 7, 2, "return raw(x)", SourcePlace(PACKAGE, 90, 2, "raw(y)", OWN))
    shown = "/home/me/kernel.py:40: total = helper(x) (by arith.py:7, inlined there)"
    assert source_key(chain) == (shown, 40)
    assert source_key(OWN) == ("/home/me/kernel.py:40: total = helper(x)", 40)
    assert source_key(inner) == (f"{PACKAGE}:7: return raw(x)", 7), "no chain: what the PTX says"
    mine = SourcePlace("/home/me/maths.py", 3, 0, "y = x", OWN)
    assert source_key(mine) == (str(mine), 3), "a helper of the program itself has its own line"


def test_a_decorator_is_no_line_of_code() -> None:
    text, line = source_key(SourcePlace("/home/me/kernel.py", 12, 0, "@cute.jit"))
    assert (text, line) == (f"{UNNAMED}: /home/me/kernel.py:12: @cute.jit", 0)
