"""Events and what waits for them (CUDA Driver API, "Event Management")."""

from __future__ import annotations

from ..base.codes import CudaError, Status
from ..base.objects import Event
from ..base.session import Session
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
    found.capture, found.node = where.capture, where.last
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
        where.capture, where.last = found.capture, found.node
