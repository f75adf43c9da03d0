"""Counters of query tiles whose last CTA joins the splits: 0 before every launch, and after it.

The last CTA of a query tile sets its counter back, so that launches that follow one another share
counters. Those that may run at the same time must not: on a CUDA device every stream has its own,
and so has every call that is captured into a graph, since nobody knows on which stream that will
run. They lie in memory of their own, set to 0 once, and not in torch's pools: memory of a pool for
graphs would be 0 only once the graph has run, and what is kept there counts as lost. A launch that
fails while it runs leaves the process without its CUDA context, and so without these counters; on
the host, where the simulator may end a launch, every call has new ones.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from . import device

COUNTER_BYTES: Final = 4
CHUNK: Final = 2**20
"""Counters that are set to 0 together: 4 MiB, for some thousand captured calls."""


class Counters(NamedTuple):
    """Counters of a launch: where, how many, and what keeps them alive on the host."""

    address: int
    number: int
    memory: Any = None


class CounterStore:
    """Counters of one device.

    Args:
        allocate: returns the address of so many bytes that are 0, and stay.
    """

    def __init__(self, allocate: Callable[[int], int]) -> None:
        """Start without any."""
        self._allocate = allocate
        self._of_stream: dict[int, Counters] = {}
        self._next = self._left = 0
        self._lock = threading.Lock()

    def of_stream(self, stream: int, count: int) -> Counters:
        """Return counters for a launch on a stream; all its launches share them."""
        known = self._of_stream.get(stream)
        if known is None or known.number < count:
            # At least twice as many as before: a stream leaves few behind.
            known = self.new(1 << (count - 1).bit_length())
            self._of_stream[stream] = known
        return known

    def new(self, count: int) -> Counters:
        """Return counters that nobody else has."""
        with self._lock:
            if count > self._left:
                self._left = max(count, CHUNK)
                self._next = self._allocate(self._left * COUNTER_BYTES)
            found = Counters(self._next, count)
            self._next += count * COUNTER_BYTES
            self._left -= count
        return found


_stores: dict[int, CounterStore] = {}


def counters_on(where: Any, count: int) -> Counters:
    """Return ``count`` counters for a launch on torch device ``where``, on its current stream.

    Raises:
        fa4_cute.host.run.device.CudaError: there is no memory for them.
    """
    torch = sys.modules["torch"]
    if where.type == "cpu":
        made = torch.zeros(count, dtype=torch.int32)
        return Counters(made.data_ptr(), count, made)
    store = _stores.get(where.index)
    if store is None:

        def allocate(size: int) -> int:
            with torch.cuda.device(where.index):
                return device.launcher().zeros(size)

        store = _stores.setdefault(where.index, CounterStore(allocate))
    if torch.cuda.is_current_stream_capturing():
        return store.new(count)
    return store.of_stream(device.current_stream(where.index), count)
