"""Events and what waits for them (CUDA Driver API, "Event Management")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..base.codes import CudaError, Status
from ..base.objects import Event, Work
from ..base.session import SET_NODE, Session
from ..base.table import U32, entry

DISABLE_TIMING = 2


@entry("cuEventCreate", "cudaEventCreateWithFlags")
def create_event(s: Session, out: int, flags: U32) -> None:
    """Make an event."""
    s.program.put(out, "Q", s.new(Event(flags)))


@entry("cudaEventCreate")
def create_plain_event(s: Session, out: int) -> None:
    """Make an event."""
    create_event(s, out, 0)


@entry("cuEventDestroy_v2", "cuEventDestroy", "cudaEventDestroy")
def destroy_event(s: Session, event: int) -> None:
    """Forget an event."""
    s.drop(event, Event)


@entry("cuEventRecord", "cuEventRecordWithFlags", "cudaEventRecord", "cudaEventRecordWithFlags")
def record_event(s: Session, event: int, stream: int) -> None:
    """Note the time, or the newest step where the stream is captured."""
    s.check()
    found, where = s.get(event, Event), s.stream(stream)
    found.capture, found.tail = where.capture, where.tail
    if where.capture is None:
        found.time = s.clock()


@entry("cuEventQuery", "cuEventSynchronize", "cudaEventQuery", "cudaEventSynchronize")
def event_done(s: Session, event: int) -> None:
    """Say that what was before the event is done."""
    s.get(event, Event)
    s.check()


@entry("cuEventElapsedTime", "cuEventElapsedTime_v2", "cudaEventElapsedTime",
       "cudaEventElapsedTime_v2")  # fmt: skip
def elapsed(s: Session, out: int, first: int, second: int) -> None:
    """Give the milliseconds between two events, as this machine spent them."""
    events = s.get(first, Event), s.get(second, Event)
    start, end = (event.time for event in events)
    if start is None or end is None or any(event.flags & DISABLE_TIMING for event in events):
        raise CudaError(Status.INVALID_HANDLE)
    s.program.put(out, "f", (end - start) * 1e3)


@entry("cuStreamWaitEvent", "cudaStreamWaitEvent")
def wait_event(s: Session, stream: int, event: int) -> None:
    """Wait for nothing; a stream that waits for a captured one is captured, too."""
    found, where = s.get(event, Event), s.stream(stream)
    if found.capture is not None and where.capture is None:
        where.capture, where.tail = found.capture, found.tail


_CONDITIONS: Final[tuple[Callable[[int, int, int], bool], ...]] = (
    lambda found, value, sign: not (found - value) & sign,
    lambda found, value, _sign: found == value,
    lambda found, value, _sign: bool(found & value),
    lambda found, value, sign: (found | value) != 2 * sign - 1,
)
"""`CUstreamWaitValue_flags`: at least (cyclically), equal, and, nor."""


def _waiting(s: Session, address: int, value: int, flags: int, form: str) -> Work:
    s.arena.check(address, 8 if form == "Q" else 4)
    condition, sign = _CONDITIONS[flags & 3], 1 << (63 if form == "Q" else 31)

    def work() -> None:
        (found,) = s.program.read_words(address, form)
        if not condition(found, value, sign):
            what = f"the stream waits for {value} at {address:#x}, where {found} stays for ever"
            raise CudaError(Status.LAUNCH_TIMEOUT, what)

    return work


def _writing(s: Session, address: int, value: int, form: str) -> Work:
    s.arena.check(address, 8 if form == "Q" else 4)

    def work() -> None:
        s.program.put(address, form, value)

    return work


@entry("cuStreamWaitValue32", "cuStreamWaitValue32_v2")
def wait_value_32(s: Session, stream: int, address: int, value: U32, flags: U32) -> None:
    """Wait for a value, which has to be there: all work before is done."""
    s.submit(stream, _waiting(s, address, value, flags, "I"), SET_NODE)


@entry("cuStreamWaitValue64", "cuStreamWaitValue64_v2")
def wait_value_64(s: Session, stream: int, address: int, value: int, flags: U32) -> None:
    """Wait for a value of 64 bits."""
    s.submit(stream, _waiting(s, address, value, flags, "Q"), SET_NODE)


@entry("cuStreamWriteValue32", "cuStreamWriteValue32_v2")
def write_value_32(s: Session, stream: int, address: int, value: U32) -> None:
    """Write a value."""
    s.submit(stream, _writing(s, address, value, "I"), SET_NODE)


@entry("cuStreamWriteValue64", "cuStreamWriteValue64_v2")
def write_value_64(s: Session, stream: int, address: int, value: int) -> None:
    """Write a value of 64 bits."""
    s.submit(stream, _writing(s, address, value, "Q"), SET_NODE)
