"""The device functions that a kernel may call: which they are, and how deep their calls go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..contract.codes import CODE_GRAIN, WINDOW_CODE
from ..ptx.errors import PtxError, Unsupported
from ..ptx.program import DeviceFunction, Function, FunctionHead, Instr, Kernel, Signature, Symbol
from .frames import FRAME_ALIGNMENT, STACK_BYTES, align, frame_of
from .slots import Slots


def code_address(function: FunctionHead) -> int:
    """What a pointer to a function of a module holds, in all of its kernels."""
    return (WINDOW_CODE << 32) + CODE_GRAIN * (function.number + 1)


@dataclass
class Linked:
    """What the functions of one program share.

    Attributes:
        functions: every `.func` of the module.
        bodies: those that the kernel may reach, by name.
        calls: what each of these, and the kernel under the name "", may call.
        broken: why a body could not be read.
        refused: why instructions stop the run when they are executed, by number.
    """

    functions: Mapping[str, FunctionHead]
    bodies: dict[str, DeviceFunction] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    broken: dict[str, PtxError] = field(default_factory=dict)
    slots: Slots = field(default_factory=Slots)
    refused: list[Unsupported] = field(default_factory=list)

    def signature(self, ins: Instr, name: str) -> Signature:
        """Results and parameters of a function that `ins` calls.

        Raises:
            Unsupported: they cannot be read.
        """
        try:
            return self.functions[name].signature()
        except PtxError as error:
            raise _unread(ins, name, error) from error

    def number(self, ins: Instr, name: str) -> int:
        """The number of a function that `ins` calls.

        Raises:
            Unsupported: the module does not hold its body, or it cannot be read.
        """
        if name in self.broken:
            raise _unread(ins, name, self.broken[name])
        if name not in self.bodies:
            what = f"call of {name}, an external function that this module does not hold"
            raise Unsupported(ins, what, name)
        return self.functions[name].number

    def address(self, name: str) -> int | None:
        """What a pointer to a function holds; None where there is no such function."""
        if name not in self.functions:
            return None
        return code_address(self.functions[name])

    def recursive(self, name: str) -> bool:
        """Whether a function may be called while it runs."""
        return name in self._reached(self.calls[name])

    def _reached(self, names: Iterable[str]) -> set[str]:
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.calls[name]
        return found

    def local_bytes(self, kernel: Kernel) -> int:
        """Local memory of a thread: all frames of the deepest chain of calls.

        Where functions call themselves it is STACK_BYTES more than one round of them.
        """
        if not self.bodies:
            return frame_of(kernel).bytes
        room = {name: frame_of(body).room for name, body in self.bodies.items()}
        if any(self.recursive(name) for name in self.bodies):
            deepest = sum(room.values()) + STACK_BYTES
        else:
            deepest = self._deepest("", room)
        return align(frame_of(kernel).room + deepest, FRAME_ALIGNMENT)

    def _deepest(self, top: str, room: Mapping[str, int]) -> int:
        depth: dict[str, int] = {}
        stack = [top]
        while stack:
            name = stack[-1]
            missing = [other for other in self.calls[name] if other not in depth]
            if missing:
                stack += missing
                continue
            below = max((depth[other] for other in self.calls[name]), default=0)
            depth[name] = room.get(name, 0) + below
            stack.pop()
        return depth[top]


def _unread(ins: Instr, name: str, error: PtxError) -> Unsupported:
    return Unsupported(ins, f"{name}: PTX line {error.line}: {error.what}", name)


def link(functions: Mapping[str, FunctionHead], kernel: Kernel) -> Linked:
    """Read the functions that a kernel may reach.

    A call by a register may reach the functions of its `.calltargets`; without these, all of the
    module, since the pointer may come from anywhere.
    """
    linked = Linked(functions)
    left: list[tuple[str, Function]] = [("", kernel)]
    while left:
        name, function = left.pop()
        linked.calls[name] = []
        for callee in dict.fromkeys(_callees(function, functions)):
            body = linked.bodies.get(callee) or _read(linked, callee)
            if body is None:
                continue
            if callee not in linked.bodies:
                linked.bodies[callee] = body
                left.append((callee, body))
            linked.calls[name].append(callee)
    return linked


def _read(linked: Linked, name: str) -> DeviceFunction | None:
    head = linked.functions.get(name)
    if head is None or head.body is None or name in linked.broken:
        return None
    try:
        return head.body()
    except PtxError as error:
        linked.broken[name] = error
        return None


def _callees(function: Function, every: Iterable[str]) -> Iterable[str]:
    for ins in function.body:
        if ins.call is None:
            continue
        if isinstance(ins.call.callee, Symbol):
            yield ins.call.callee.name
        else:
            yield from every if ins.call.targets is None else ins.call.targets
