"""Graphs that are built step by step (CUDA Driver API, "Graph Management")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ..base.codes import CudaError, Status
from ..base.objects import Graph, GraphProgram, Node, Work
from ..base.session import (
    ALLOCATE_NODE,
    CONDITIONAL_NODE,
    COPY_NODE,
    EMPTY_NODE,
    FREE_NODE,
    GRAPH_NODE,
    HOST_NODE,
    KERNEL_NODE,
    SET_NODE,
    Session,
)
from ..base.table import U32, entry
from .context import calling
from .copies import Plane, copying_3d, filling
from .graphs import LEAST_POINTER, steps_at
from .launches import Shape, dims, launching
from .memory import allocate, allocated_again

_KERNEL = "Q7I4xQQQ"
_SET = "QQIIQQ"
UNION, COPY_HEAD = 16, 16
"""Bytes of `CUgraphNodeParams` before what differs by type, and of a copy's before the copy."""
CONDITION_BYTES, CONDITION_GRAPHS, ASSIGN_DEFAULT = 4, 16, 1
IF, WHILE, SWITCH = range(3)
"""`CUgraphConditionalNodeType`."""
_BYTES_OFFSET = 104
"""Of the size in `CUDA_MEM_ALLOC_NODE_PARAMS`; the address that is given comes after it."""


def add_step(s: Session, words: tuple[int, ...], kind: int, work: Work) -> None:
    """Add a step.

    Args:
        s: the session.
        words: of the call: where the step's handle goes, the graph, the steps before, how many.
        kind: of the step.
        work: what it does.
    """
    out, graph, before, count = words[:4]
    after = steps_at(s, before, count)
    s.program.put(out, "Q", s.add_node(s.get(graph, Graph), kind, work, after).handle)


def _nothing() -> None:
    """The work of a step that only others wait for."""


def kernel_work(s: Session, parameters: int) -> Work:
    """Work of `CUDA_KERNEL_NODE_PARAMS`."""
    words = s.program.read_words(parameters, _KERNEL)
    function, *extents, smem, pointers, extra, kernel = words
    shape = Shape(dims(extents[:3]), dims(extents[3:]), smem)
    return launching(s, function or kernel, shape, pointers, extra)


def set_work(s: Session, parameters: int) -> Work:
    """Work of `CUDA_MEMSET_NODE_PARAMS`."""
    target, pitch, value, size, width, height = s.program.read_words(parameters, _SET)
    return filling(s, Plane(target, pitch), value, size, (width, height))


# -- conditions -----------------------------------------------------------------------------------


@entry("cudaGraphConditionalHandleCreate")
def create_condition(s: Session, out: int, graph: int, value: U32, flags: U32) -> None:
    """Make a condition: its handle is the address that kernels write to."""
    address = s.arena.allocate(CONDITION_BYTES, name=s.numbered())
    s.program.put(address, "I", value)
    if flags & ASSIGN_DEFAULT:
        s.get(graph, Graph).conditions[address] = value
    s.program.put(out, "Q", address)


@entry("cuGraphConditionalHandleCreate")
def driver_create_condition(s: Session, *words: int) -> None:
    """The same, in a context."""
    out, graph, _context, value, flags = words[:5]
    create_condition(s, out, graph, value & 0xFFFFFFFF, flags & 0xFFFFFFFF)


def conditional_work(s: Session, parameters: int) -> Work:
    """Work of `CUDA_CONDITIONAL_NODE_PARAMS`; gives the program its graphs, which are empty.

    Raises:
        CudaError: there is no such kind, or it does not have as many graphs.
    """
    condition, kind, count = s.program.read_words(parameters, "QII")
    if kind > SWITCH or not 1 <= count <= {IF: 2, WHILE: 1}.get(kind, count):
        raise CudaError(Status.INVALID_VALUE, f"a conditional node of kind {kind}, {count} graphs")
    bodies = [s.new_graph() for _ in range(count)]
    place = s.arena.allocate(8 * count, "pinned")
    s.program.put(place, f"{count}Q", *(body.handle for body in bodies))
    s.program.put(parameters + CONDITION_GRAPHS, "Q", place)

    def value() -> int:
        return int(s.program.read_words(condition, "I")[0])

    def work() -> None:
        if kind == WHILE:
            while value():
                bodies[0].run()
            return
        chosen = value() if kind == SWITCH else 0 if value() else 1
        if chosen < count:
            bodies[chosen].run()

    return work


def generic_words(words: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Of `cu(da)GraphAddNode`: the words of `add_step`, and where the parameters lie.

    Since CUDA 13, and in `_v2`, words on edges come before the number of the steps.
    """
    if words[4] >= LEAST_POINTER:
        return words[:4], words[4]
    return (*words[:3], words[4]), words[5]


def add_any(s: Session, words: tuple[int, ...], kernel: Callable[[Session, int], Work],
            copy: Callable[[Session, int], Work]) -> None:  # fmt: skip
    """Add a step of the kind that its parameters name.

    Args:
        s: the session.
        words: of the call.
        kernel, copy: work of the parameters that the APIs have in other words.

    Raises:
        CudaError: the kind is not modelled.
    """
    step, parameters = generic_words(words)
    (kind,) = s.program.read_words(parameters, "I")
    inner = parameters + UNION
    if kind == EMPTY_NODE:
        add_step(s, step, kind, _nothing)
    elif kind == HOST_NODE:
        add_step(s, step, kind, calling(s, *s.program.read_words(inner, "QQ")))
    elif kind == GRAPH_NODE:
        add_child(s, *step, s.program.read_words(inner, "Q")[0])
    elif kind == ALLOCATE_NODE:
        add_allocation(s, *step, inner)
    elif kind == FREE_NODE:
        add_free(s, *step, s.program.read_words(inner, "Q")[0])
    elif kind in (KERNEL_NODE, COPY_NODE, SET_NODE, CONDITIONAL_NODE):
        made = {KERNEL_NODE: kernel, COPY_NODE: copy, SET_NODE: set_work}
        work = made.get(kind, conditional_work)
        add_step(s, step, kind, work(s, inner + COPY_HEAD * (kind == COPY_NODE)))
    else:
        raise CudaError(Status.NOT_SUPPORTED, f"graph nodes of type {kind} are not modelled")


@entry("cuGraphAddNode", "cuGraphAddNode_v2")
def add_node(s: Session, *words: int) -> None:
    """Add a step of any kind."""
    add_any(s, words, kernel_work, copying_3d)


@entry("cuGraphAddKernelNode_v2")
def add_kernel(s: Session, *words: int) -> None:
    """Add a launch."""
    add_step(s, words, KERNEL_NODE, kernel_work(s, words[4]))


@entry("cuGraphAddMemcpyNode")
def add_copy(s: Session, *words: int) -> None:
    """Add a copy."""
    add_step(s, words, COPY_NODE, copying_3d(s, words[4]))


@entry("cuGraphAddMemsetNode", "cudaGraphAddMemsetNode")
def add_set(s: Session, *words: int) -> None:
    """Add a fill."""
    add_step(s, words, SET_NODE, set_work(s, words[4]))


@entry("cuGraphAddHostNode", "cudaGraphAddHostNode")
def add_host(s: Session, *words: int) -> None:
    """Add a call of the program."""
    function, data = s.program.read_words(words[4], "QQ")
    add_step(s, words, HOST_NODE, calling(s, function, data))


@entry("cuGraphAddEmptyNode", "cudaGraphAddEmptyNode")
def add_empty(s: Session, *words: int) -> None:
    """Add a step without work."""
    add_step(s, words, EMPTY_NODE, _nothing)


@entry("cuGraphAddChildGraphNode", "cudaGraphAddChildGraphNode")
def add_child(s: Session, *words: int) -> None:
    """Add the steps of another graph as they are now."""
    nodes = s.get(words[4], Graph).ordered()

    def work() -> None:
        for node in nodes:
            node.work()

    add_step(s, words, GRAPH_NODE, work)


@entry("cuGraphAddMemAllocNode", "cudaGraphAddMemAllocNode")
def add_allocation(s: Session, *words: int) -> None:
    """Allocate for a graph, now and for all its launches."""
    parameters = words[4]
    size = s.program.read_words(parameters + _BYTES_OFFSET, "Q")[0]
    allocate(s, parameters + _BYTES_OFFSET + 8, size)
    address = s.program.read_words(parameters + _BYTES_OFFSET + 8, "Q")[0]
    add_step(s, words, ALLOCATE_NODE, allocated_again(s, address))


@entry("cuGraphAddMemFreeNode", "cudaGraphAddMemFreeNode")
def add_free(s: Session, *words: int) -> None:
    """Add a step that frees memory of the graph; the next launch needs the address again."""
    if s.arena.region_of(words[4]) is None:
        raise CudaError(Status.INVALID_VALUE)
    add_step(s, words, FREE_NODE, partial(s.graph_memory.give, words[4]))


def change(nodes: Iterable[Node], handle: int, kind: int, work: Work) -> None:
    """Give a step of a graph, or of an instantiated one, other work of its kind.

    Raises:
        CudaError: there is no such step.
    """
    found = [node for node in nodes if node.handle == handle and node.kind == kind]
    if not found:
        raise CudaError(Status.INVALID_VALUE, f"{handle:#x} is no step of this kind there")
    found[0].work = work


@entry("cuGraphKernelNodeSetParams_v2")
def set_kernel(s: Session, node: int, parameters: int) -> None:
    """Change a launch of a graph."""
    change([s.get(node, Node)], node, KERNEL_NODE, kernel_work(s, parameters))


@entry("cuGraphExecKernelNodeSetParams_v2")
def set_program_kernel(s: Session, program: int, node: int, parameters: int) -> None:
    """Change a launch of an instantiated graph."""
    work = kernel_work(s, parameters)
    change(s.get(program, GraphProgram).nodes, node, KERNEL_NODE, work)


@entry("cuGraphExecMemsetNodeSetParams", "cudaGraphExecMemsetNodeSetParams")
def set_program_fill(s: Session, program: int, node: int, parameters: int) -> None:
    """Change a fill of an instantiated graph."""
    change(s.get(program, GraphProgram).nodes, node, SET_NODE, set_work(s, parameters))
