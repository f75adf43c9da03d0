"""This package's Hopper kernel for d64 with boxes held back until Q has come. PTX to PTX.

Its load warp asks for the first K, for Q of each consumer, and then for the next K and a V in turn,
as far as there are slots. Here the loop of these waits for Q first, from some turn on.
"""

from __future__ import annotations

import re
from typing import Final

_PLACE: Final = re.compile(r"mbarrier\.arrive\.expect_tx\.shared\.b64 \S+ \[(\w+)\+(\d+)\]")
_LOOP: Final = re.compile(r"\n(\$L__BB0_\d+):\n\t\.pragma \"nounroll\";\n")
_COUNT: Final = re.compile(r"\tmov\.b32 \t(%r\d+), (\d+);")


def held(ptx: str, turns: int) -> str:
    """Return the module whose load warp makes so many turns before it waits for Q.

    Each turn asks for two boxes, of K and of V.

    Raises:
        ValueError: the load warp is not as above.
    """
    at = ptx.find("setmaxnreg.dec")
    loop = _LOOP.search(ptx, at)
    if at < 0 or loop is None:
        raise ValueError("ptx: no loop of a load warp")
    places = _PLACE.findall(ptx[at : loop.start()])[1:]
    counts = [m for m in _COUNT.findall(ptx[at : loop.start()]) if int(m[1]) > 1]
    if not places or not counts:
        raise ValueError("ptx: no boxes before the load warp's loop, or nothing that counts it")
    # The first row of the next K, which begins with the keys of a tile.
    row, keys = counts[-1]
    waits = "".join(
        f"Q_COMES_{k}:\nmbarrier.try_wait.parity.shared::cta.b64 %h_done, [{base}+{place}], 0;\n"
        f"@!%h_done bra Q_COMES_{k};\n"
        for k, (base, place) in enumerate(places)
    )
    text = (
        ".reg .pred %h_done, %h_before;\n"
        f"setp.lt.u32 %h_before, {row}, {int(keys) * (turns + 1)};\n"
        f"@%h_before bra GO_ON;\n{waits}GO_ON:\n"
    )
    return ptx[: loop.end()] + text + ptx[loop.end() :]
