"""The S/O chains of a kernel, and what belongs to one of them by its number.

Where both softmax groups run one copy of the code, the number of a chain is in a register, and what
belongs to it is computed from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

NUM_CHAINS: Final = 2
"""S/O chains of the kernel: two Q tiles, or even and odd key tiles of one."""
CHAINS: Final = range(NUM_CHAINS)


def of_chain(chain: Any, values: Sequence[Any]) -> Any:
    """Return that of ``values``, one for each chain, which belongs to ``chain``.

    Args:
        chain: an integer, or a register, for which the answer is one, too.
        values: integers or registers.

    Raises:
        ValueError: an integer is not the number of a chain.
    """
    if isinstance(chain, int):
        if chain not in CHAINS:
            raise ValueError(f"chain={chain}: the chains are 0 and 1")
        return values[chain]
    first, second = values
    return first + chain * (second - first)
