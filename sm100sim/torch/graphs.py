"""`torch.cuda.CUDAGraph` without a GPU: launches are kept, and made when the graph is replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ..launch_request import LaunchRequest
from ..options import RunOptions
from ..report import Report
from ..run import instead_of_launching, run


class Graph:
    """Stands for `torch.cuda.CUDAGraph`; what it captures is launches, not functions of torch."""

    def __init__(self, **_options: Any) -> None:
        self._launches: list[Callable[[], Report]] = []
        self._open = ExitStack()

    def take(self, request: LaunchRequest, options: RunOptions, buffers: Iterable[Any]) -> Report:
        """Keep a launch, with its arguments as they are now."""
        self._launches.append(partial(run, request, options, tuple(buffers)))
        return Report.not_run(request.kernel, request.grid, request.block, request.cluster)

    def capture_begin(self, *_pool: Any, **_options: Any) -> None:
        """Keep the launches of this thread from now on."""
        self._launches.clear()
        self._open.enter_context(instead_of_launching(self.take))

    def capture_end(self) -> None:
        """Launch again."""
        self._open.close()

    def replay(self) -> None:
        """Make the launches, in the order in which they were captured."""
        for launch in self._launches:
            launch()

    def reset(self) -> None:
        """Forget the launches."""
        self._launches.clear()

    def pool(self) -> tuple[int, int]:
        """A pool's name; all memory is the host's."""
        return (0, 0)


@contextmanager
def capturing(graph: Graph, *_how: Any, **_options: Any) -> Iterator[None]:
    """Stands for `torch.cuda.graph`: the launches of the block go into the graph."""
    graph.capture_begin()
    try:
        yield
    finally:
        graph.capture_end()
