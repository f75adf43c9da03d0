"""One program on the virtual device: its memory, what it holds, and what its calls do."""

from __future__ import annotations

import ctypes
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ...contract.records import HEAP_BLOCKS, Heap, Region
from ...host.device_model import DeviceModel
from ...launch_request import LaunchRequest
from ...memory import Allocation
from ...ptx.errors import PtxError
from ...report import Report
from .arena import Arena
from .codes import CudaError, Status
from .objects import Context, Graph, GraphMemory, Node, Stream, Work
from .table import TABLE
from .wire import Ended, Program

Launcher = Callable[[LaunchRequest, Sequence[Allocation], Callable[[str], object]], Report]
"""Runs a launch with the memory that it may touch; the last one gets what the kernel prints."""
T = TypeVar("T")

HANDLE_STEP: Final = 16
STREAM_LEGACY, STREAM_PER_THREAD = 1, 2
"""Handles of default streams (CUDA Driver API, "CU_STREAM_LEGACY")."""
KERNEL_NODE, COPY_NODE, SET_NODE, HOST_NODE, GRAPH_NODE, EMPTY_NODE = range(6)
ALLOCATE_NODE, FREE_NODE = 10, 11
CONDITIONAL_NODE = 13
"""`CUgraphNodeType`."""

_FAULTS: Final = {
    "global-address": Status.ILLEGAL_ADDRESS,
    "generic-address": Status.ILLEGAL_ADDRESS,
    "shared-address": Status.ILLEGAL_ADDRESS,
    "local-address": Status.ILLEGAL_ADDRESS,
    "misaligned": Status.MISALIGNED,
    "assertion": Status.ASSERT,
    "deadlock": Status.LAUNCH_TIMEOUT,
    "livelock": Status.LAUNCH_TIMEOUT,
}
"""Code of the error by the code of the finding that stopped a launch; others: LAUNCH_FAILED."""

NVML_NOT_SUPPORTED: Final = 3
NVJITLINK_INTERNAL: Final = 6
HEAP_LIMIT, HEAP_BYTES, HEAP_ROOM = 2, 8 << 20, 16
"""The heap of kernels: number of its `CUlimit`, bytes that may be in use where a program does not
say, and how many times as many addresses there are, since freed ones are not used again at once."""


class Session:
    """The state of one program.

    Attributes:
        program: its process.
        arena: its device memory.
        device: what the device says about itself.
        fault: the error that stopped a launch; every later call that needs the device answers it.
        last_error: what `cudaGetLastError` answers.
        contexts: the current contexts of the program, innermost last.
        shadows: address and size of registered host memory by the address of its copy.
        graph_memory: what graphs have allocated.
    """

    def __init__(self, program: Program, arena: Arena, device: DeviceModel, launcher: Launcher):
        self.program = program
        self.arena = arena
        self.device = device
        self.fault: Status | None = None
        self.last_error = 0
        self.contexts: list[int] = []
        self.primary = Context(primary=True)
        self.shadows: dict[int, tuple[int, int]] = {}
        self.graph_memory = GraphMemory()
        self.started = False
        self.runtime: dict[str, Any] = {}
        self._launcher = launcher
        self._objects: dict[int, Any] = {}
        self._streams = Stream()
        self._call = ""
        self._numbers: dict[str, int] = {}
        self._strings: dict[str, int] = {}
        self._next_handle = 0x5A100000
        self.primary_handle = self.new(self.primary)

    # -- handles ----------------------------------------------------------------------------

    def new(self, thing: Any) -> int:
        """A handle of something."""
        self._next_handle += HANDLE_STEP
        self._objects[self._next_handle] = thing
        return self._next_handle

    def named(self, handle: int, thing: Any) -> None:
        """Let a handle that the caller chose stand for something."""
        self._objects[handle] = thing

    def get(self, handle: int, kind: type[T]) -> T:
        """What a handle stands for.

        Raises:
            CudaError: it stands for nothing of the kind.
        """
        found = self._objects.get(handle)
        if not isinstance(found, kind):
            what = "is no handle" if found is None else f"stands for a {type(found).__name__}"
            why = f"{handle:#x} {what}; a {kind.__name__} is needed"
            raise CudaError(Status.INVALID_HANDLE, why)
        return found

    def drop(self, handle: int, kind: type[T]) -> T:
        """Forget a handle; what it stood for."""
        found = self.get(handle, kind)
        del self._objects[handle]
        return found

    def all_of(self, kind: type[T]) -> dict[int, T]:
        """Everything of a kind, by handle."""
        return {h: thing for h, thing in self._objects.items() if isinstance(thing, kind)}

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle; 0, 1 and 2 are the default stream."""
        if handle in (0, STREAM_LEGACY, STREAM_PER_THREAD):
            return self._streams
        return self.get(handle, Stream)

    def text(self, text: str) -> int:
        """Address of a text that the program may keep."""
        if text not in self._strings:
            raw = text.encode() + b"\0"
            address = self.arena.allocate(len(raw), "pinned")
            self.program.write(address, raw)
            self._strings[text] = address
        return self._strings[text]

    # -- work -------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse to go on after a launch that was stopped.

        Raises:
            CudaError: one was.
        """
        if self.fault is not None:
            raise CudaError(self.fault)

    def submit(self, stream: int, work: Work, kind: int) -> None:
        """Do work that belongs to a stream, or keep it where the stream is captured.

        Raises:
            CudaError: the work failed, or a launch before it was stopped.
        """
        self.check()
        target = self.stream(stream)
        if target.capture is None:
            work()
        else:
            target.tail = [self.add_node(target.capture, kind, work, target.tail)]

    def new_graph(self) -> Graph:
        """An empty graph."""
        graph = Graph()
        graph.handle = self.new(graph)
        return graph

    def add_node(self, graph: Graph, kind: int, work: Work, after: Sequence[Node]) -> Node:
        """A new step of a graph."""
        node = Node(kind, work, list(after))
        node.handle = self.new(node)
        graph.nodes.append(node)
        return node

    def execute(self, request: LaunchRequest) -> None:
        """Run a launch to its end.

        Raises:
            CudaError: it was refused or stopped.
        """
        for copy, (address, size) in self.shadows.items():
            self.program.move(copy, address, size)
        if "malloc" in request.ptx:
            self._have_heap()
        self.program.settle()  # the kernel reads what copies of the same call write
        try:
            report = self._launcher(request, self.arena.allocations(), self.program.print)
        except ValueError as error:
            raise CudaError(Status.INVALID_VALUE, str(error)) from None
        for copy, (address, size) in self.shadows.items():
            self.program.move(address, copy, size)
        fatal = [finding.code for finding in report.findings if finding.fatal]
        if fatal or not report.ended:
            self.fault = _FAULTS.get(fatal[0] if fatal else "", Status.LAUNCH_FAILED)
            told = [finding.message for finding in report.findings if finding.code == "assertion"]
            for message in told:  # a device's driver says it, too
                say(message)
            what = f"{request.kernel} was stopped ({fatal[0] if fatal else report.verdict})"
            raise CudaError(self.fault, f"{what}; the report comes when the program has ended")

    def _have_heap(self) -> None:
        """Have the heap of kernels' malloc; it is made once, and as large as is allowed then."""
        if "heap" not in self.runtime:
            limit = self.runtime.get("limits", {}).get(HEAP_LIMIT, HEAP_BYTES)
            header = Heap(limit=limit)
            room = ctypes.sizeof(Heap) + HEAP_BLOCKS * ctypes.sizeof(Region) + HEAP_ROOM * limit
            self.runtime["heap"] = self.arena.allocate(room, "heap", name="the heap of malloc")
            self.program.write(self.runtime["heap"], bytes(header))

    def numbered(self) -> str:
        """The name of the call that is answered, and how many of them were numbered before."""
        self._numbers[self._call] = self._numbers.get(self._call, 0) + 1
        return f"{self._call} #{self._numbers[self._call]}"

    def clock(self) -> float:
        """Seconds, from a point in the past."""
        return time.perf_counter()

    # -- calls ------------------------------------------------------------------------------

    def dispatch(self, name: str, words: tuple[int, ...]) -> int:
        """Answer a call; the value that it returns."""
        self._call = name
        try:
            found = TABLE.find(name)
            if found is None:
                raise CudaError(Status.NOT_SUPPORTED, "not modelled by sm100sim's driver")
            if name.startswith("cuda") and not self.contexts:
                self.contexts.append(self.primary_handle)  # the runtime uses the primary context
                self.primary.users += 1
            code = found.call(self, words)
        except CudaError as error:
            if error.why:
                say(f"{name}: {error.why}")
            code = self._noted(name, int(error.code))
        except PtxError as error:
            say(f"{name}: {error}")
            code = self._noted(name, Status.INVALID_PTX)
        except (ConnectionError, Ended):
            raise
        except Exception:
            say(f"{name}: an error of sm100sim")
            traceback.print_exc()
            code = self._noted(name, Status.UNKNOWN)
        return code

    def _noted(self, name: str, code: int) -> int:
        """Keep an error for `cudaGetLastError`; the code as the API of the function has it."""
        if name.startswith("nvml"):
            return NVML_NOT_SUPPORTED if code == Status.NOT_SUPPORTED else Status.UNKNOWN
        if name.lstrip("_").startswith("nvJitLink"):
            return NVJITLINK_INTERNAL
        if "cuda" in name[:6]:
            self.last_error = code
        return code


def say(text: str) -> None:
    """A line on standard error."""
    print(f"sm100sim: {text}", file=sys.stderr, flush=True)
