"""One launch from start to end: its machines, one per thread, while interrupts are heard."""

from __future__ import annotations

import math
import os
import threading

from ..engine.progress import wait_and_show
from ..isa.cross_talk import Talk
from .machine import Machine, Prepared, Share
from .recording import Recorder, Recording, recorder
from .results import Results, merged

START_SECONDS = 10.0
"""How long a thread may take that was interrupted between its creation and its start."""


def usable_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


class _Progress:
    """How far several machines are."""

    def __init__(self, machines: list[Machine]) -> None:
        self._machines = machines

    @property
    def clusters(self) -> int:
        """Clusters that have ended."""
        return sum(machine.progress.clusters for machine in self._machines)

    @property
    def instructions(self) -> int:
        """Warp instructions that have been executed."""
        return sum(machine.progress.instructions for machine in self._machines)


class _Worker:
    """A machine and the thread that it runs in."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name)

    def _run(self) -> None:
        try:
            self.machine.run()
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Stop the machine and wait for its end; interrupts may leave here."""
        while not self.ended.is_set():
            self.machine.stop()
            if not self.ended.wait(START_SECONDS) and self.thread.ident is None:
                return  # interrupted before it was a thread


class _All:
    """The end of all workers."""

    def __init__(self, workers: list[_Worker]) -> None:
        self._workers = workers

    def wait(self, timeout: float) -> bool:
        """Wait for one that has not ended; whether all have."""
        for worker in self._workers:
            if not worker.ended.is_set():
                worker.ended.wait(timeout)
                break
        return self.is_set()

    def is_set(self) -> bool:
        """Whether all have ended."""
        return all(worker.ended.is_set() for worker in self._workers)


class _Threads:
    """Runs machines in threads of their own; a context manager that stops and frees them.

    So the caller's thread hears interrupts. Nothing is freed before all machines have ended; no
    interrupt, a second one neither, leaves the block before. `Thread.join` would not do: in Python
    up to 3.12 an interrupted join takes the thread for ended, and the next join returns at once.
    """

    def __init__(self, machines: list[Machine]) -> None:
        self._machines = machines
        self._workers: list[_Worker] = []

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *_: object) -> None:
        held: BaseException | None = None
        while True:
            try:
                for worker in self._workers:
                    worker.stop()
                break
            except BaseException as interrupt:
                held = interrupt
        if all(worker.ended.is_set() for worker in self._workers):
            for machine in self._machines:
                machine.free()  # else a thread may still come; __del__ frees them
        if held is not None:
            raise held

    def run(self, name: str, clusters: int) -> None:
        """Run to the end.

        Args:
            name: what to call the launch when it takes long.
            clusters: how many it has.

        Raises:
            KeyboardInterrupt: it came meanwhile; leaving the block stops the engine.
        """
        for machine in self._machines:
            worker = _Worker(machine, f"sm100sim {name}")
            self._workers.append(worker)
            try:
                worker.thread.start()
            except RuntimeError:  # the process may have no more threads
                self._workers.remove(worker)
                raise
        wait_and_show(_All(self._workers), name, _Progress(self._machines), clusters)


class Crew(Prepared):
    """Executes a launch."""

    @property
    def _clusters(self) -> int:
        return math.prod(self.request.grid) // math.prod(self.request.cluster)

    def run(self) -> Results:
        """Execute the launch; several threads change nothing in what it leaves behind.

        Raises:
            MemoryError: there is no host memory for a machine.
            KeyboardInterrupt: it came meanwhile; the engine has stopped.
        """
        wanted = recorder.get()
        if wanted is not None:
            return self._recorded(wanted)
        threads = self._threads()
        results = self._together(threads) if threads > 1 else None
        if results is not None:
            return results
        results = self._alone()
        if threads > 1 and not results.totals.faulted:
            self.assembled.taken_back.add(self.request.grid)
        return results

    def _threads(self) -> int:
        """Threads for this launch: one where clusters talk to one another, or were seen to."""
        if self.assembled.talk is not Talk.NEVER or self._taken_back():
            return 1
        return min(self.options.threads or usable_cores(), self._clusters)

    def _taken_back(self) -> bool:
        """Whether several threads were in vain for such a launch before."""
        return self.request.grid in self.assembled.taken_back

    def _alone(self) -> Results:
        machine = Machine(self)
        with _Threads([machine]) as threads:
            threads.run(self.request.kernel, self._clusters)
            return machine.results()

    def _recorded(self, wanted: Recorder) -> Results:
        machine = Machine(self)
        machine.record(wanted.plan(self._clusters), abreast=wanted.abreast)
        with _Threads([machine]) as threads:
            threads.run(self.request.kernel, self._clusters)
            found = Recording(self.request, self.assembled, *machine.steps(), machine.taken)
            wanted.launches.append(found)
            return machine.results()

    def _together(self, count: int) -> Results | None:
        """The launch in several threads; None where that would show, with memory as before."""
        machines = [Machine(self) for _ in range(count)]
        share = Share(self.raw_options())
        for machine in machines:
            machine.share(share)
        with _Threads(machines) as threads:
            threads.run(self.request.kernel, self._clusters)
            if share.holds():
                return merged([m.results() for m in machines], self.options.max_findings)
        share.undo()
        return None
