"""The simulator's end of the connections: one thread and one session for each program."""

from __future__ import annotations

import array
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path

from ...host.device_model import DeviceModel
from ...launch_request import LaunchRequest
from ...memory import Allocation
from ...options import current_options
from ...report import Report
from ...run import run
from .. import api, arrays, runtime  # noqa: F401  (they register the handlers)
from ..base.arena import Arena
from ..base.session import Session
from ..base.wire import Program

Print = Callable[[str], object]
_REGIONS = struct.Struct("<4Q")


class Server:
    """Runs the launches of the programs that connect, in the context that made it.

    So options, lists of reports and what looks at launches are those of the `run_options`, `record`
    and `before_launch` blocks around it.
    """

    def __init__(self, path: Path, device: DeviceModel | None = None) -> None:
        self.connections = 0
        self._context = copy_context()
        self._device = device or DeviceModel()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._stop, self._stopped = socket.socketpair()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self, seconds: float = 5.0) -> None:
        """Take no more programs; wait a while for those that have ended to be taken leave of."""
        self._stop.close()
        self._accepting.join(seconds)
        self._socket.close()
        self._stopped.close()
        for thread in self._threads:
            thread.join(seconds)

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._socket, self._stopped], [], [])
            if self._stopped in ready:
                return
            connection, _ = self._socket.accept()
            number, self.connections = self.connections, self.connections + 1
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        arena = Arena(number)
        try:
            with connection:
                regions = (
                    arena.device.start, arena.device.size, arena.pinned.start, arena.pinned.size
                )  # fmt: skip
                handle = array.array("i", [arena.file])
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handle)]
                connection.sendmsg([_REGIONS.pack(*regions)], rights)
                program = Program(connection)
                session = Session(program, arena, self._device, self._launch)
                program.serve(session.dispatch)
        finally:
            arena.close()

    def _launch(
        self, request: LaunchRequest, memory: Sequence[Allocation], print_to: Print
    ) -> Report:
        with self._lock:
            return self._context.run(_run, request, memory, print_to)


def _run(request: LaunchRequest, memory: Sequence[Allocation], print_to: Print) -> Report:
    options = current_options()
    options = replace(
        options, raise_on_fault=False, raise_on_findings=False,
        print_to=options.print_to or print_to,
    )  # fmt: skip
    return run(request, options, memory)
