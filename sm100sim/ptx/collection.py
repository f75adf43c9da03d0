"""Python's cyclic garbage collector, while many objects are made that all stay.

It runs each time that so many objects more exist, and looks through them all: for the program of a
large module a fifth of the time, in vain.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing inside the block, unless another thread ends such a block meanwhile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
