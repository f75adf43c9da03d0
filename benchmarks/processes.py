"""Many calls of one function in several processes; what the long programs here share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def one_thread() -> None:
    """Let torch use one thread here: the other processes have the other cores."""
    import torch

    torch.set_num_threads(1)


def each(
    function: Callable[..., _Result], calls: Sequence[tuple[Any, ...]], processes: int
) -> Iterator[_Result]:
    """Yield what ``function`` returns for each of ``calls``, its arguments, in their order.

    With one process the calls are made in this one, each when its result is asked for.
    """
    if processes == 1:
        for arguments in calls:
            yield function(*arguments)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=one_thread) as pool:
        for future in [pool.submit(function, *arguments) for arguments in calls]:
            yield future.result()


def processor_seconds() -> float:
    """Return the user time of this process and of those that it started and that have ended."""
    return sum(getrusage(who).ru_utime for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
