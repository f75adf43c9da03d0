"""Graphs and capture (CUDA Driver API, "Graph Management"); a launch does the steps in order."""

from __future__ import annotations

from ..base.codes import CudaError, Status
from ..base.objects import Graph, GraphProgram, Node, Stream
from ..base.session import GRAPH_NODE, Session
from ..base.table import entry

NOT_CAPTURING, CAPTURING = 0, 1
"""`CUstreamCaptureStatus`."""
LEAST_POINTER = 1 << 32
NEAR = 1 << 16
"""Bytes between variables of one function."""
SET_TAIL = 1
"""`CUstreamUpdateCaptureDependencies_flags`: set, not add."""


@entry("cuGraphCreate", "cudaGraphCreate")
def create_graph(s: Session, out: int) -> None:
    """Make an empty graph."""
    s.program.put(out, "Q", s.new_graph().handle)


@entry("cuGraphDestroy", "cudaGraphDestroy")
def destroy_graph(s: Session, graph: int) -> None:
    """Forget a graph and its steps."""
    for node in s.drop(graph, Graph).nodes:
        s.drop(node.handle, Node)


@entry("cuGraphClone", "cudaGraphClone")
def clone_graph(s: Session, out: int, graph: int) -> None:
    """Make a graph with the same steps."""
    copy = s.new_graph()
    copy.conditions = dict(s.get(graph, Graph).conditions)
    twins: dict[int, Node] = {}
    for node in s.get(graph, Graph).ordered():
        after = [twins[id(other)] for other in node.after]
        twins[id(node)] = s.add_node(copy, node.kind, node.work, after)
    s.program.put(out, "Q", copy.handle)


@entry(
    "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags",
    "cudaGraphInstantiateWithParams",
)  # fmt: skip
def instantiate(s: Session, out: int, graph: int) -> None:
    """Keep the steps as they are now."""
    found = s.get(graph, Graph)
    s.program.put(out, "Q", s.new(GraphProgram(_steps(found), dict(found.conditions))))


def _steps(graph: Graph) -> list[Node]:
    """The steps in order, with the handles that they have in the graph."""
    return [Node(node.kind, node.work, handle=node.handle) for node in graph.ordered()]


@entry("cuGraphExecUpdate", "cuGraphExecUpdate_v2", "cudaGraphExecUpdate")
def update(s: Session, program: int, graph: int, result: int) -> None:
    """Take the steps of another graph."""
    s.get(program, GraphProgram).nodes = _steps(s.get(graph, Graph))
    s.program.put(result, "I", 0)


@entry("cuGraphDestroyNode", "cudaGraphDestroyNode")
def destroy_node(s: Session, handle: int) -> None:
    """Take a step out of its graph."""
    gone = s.drop(handle, Node)
    for graph in s.all_of(Graph).values():
        graph.nodes = [node for node in graph.nodes if node is not gone]
        for node in graph.nodes:
            node.after = [other for other in node.after if other is not gone]


@entry("cuGraphExecDestroy", "cudaGraphExecDestroy")
def destroy_program(s: Session, program: int) -> None:
    """Forget an instantiated graph."""
    s.drop(program, GraphProgram)


@entry("cuGraphLaunch", "cudaGraphLaunch")
def launch_graph(s: Session, program: int, stream: int) -> None:
    """Do the steps."""
    found = s.get(program, GraphProgram)
    nodes = found.nodes

    def work() -> None:
        for condition, value in found.conditions.items():
            s.program.put(condition, "I", value)
        for node in nodes:
            node.work()

    s.submit(stream, work, GRAPH_NODE)


@entry("cuGraphUpload", "cudaGraphUpload")
def upload(s: Session, program: int) -> None:
    """Do nothing: a graph is always ready."""
    s.get(program, GraphProgram)


@entry("cuGraphGetNodes", "cudaGraphGetNodes")
def graph_nodes(s: Session, graph: int, out: int, count: int) -> None:
    """Give the steps, or how many there are."""
    handles = [node.handle for node in s.get(graph, Graph).nodes]
    if out:
        handles = handles[: s.program.read_words(count, "Q")[0]]
        s.program.put(out, f"{len(handles)}Q", *handles)
    s.program.put(count, "Q", len(handles))


@entry("cuGraphGetRootNodes", "cudaGraphGetRootNodes")
def root_nodes(s: Session, graph: int, out: int, count: int) -> None:
    """Give the steps that wait for none, or how many there are."""
    handles = [node.handle for node in s.get(graph, Graph).nodes if not node.after]
    if out:
        handles = handles[: s.program.read_words(count, "Q")[0]]
        s.program.put(out, f"{len(handles)}Q", *handles)
    s.program.put(count, "Q", len(handles))


@entry("cuGraphNodeGetType", "cudaGraphNodeGetType")
def node_type(s: Session, node: int, out: int) -> None:
    """Give the kind of a step."""
    s.program.put(out, "I", s.get(node, Node).kind)


def add_edges(s: Session, first: int, second: int, count: int) -> None:
    """Let steps wait for others."""
    pairs = zip(
        s.program.read_words(first, f"{count}Q"), s.program.read_words(second, f"{count}Q"),
        strict=True,
    )  # fmt: skip
    for before, after in pairs:
        s.get(after, Node).after.append(s.get(before, Node))


@entry("cuGraphAddDependencies")
def add_dependencies(s: Session, _graph: int, first: int, second: int, count: int) -> None:
    """Let steps wait for others."""
    add_edges(s, first, second, count)


@entry("cuGraphAddDependencies_v2", "cudaGraphAddDependencies_v2")
def add_edge_data(s: Session, *words: int) -> None:
    """Let steps wait for others; what kind of edge it is has no effect."""
    add_edges(s, words[1], words[2], words[4])


@entry("cudaGraphAddDependencies")
def add_edges_of_runtime(s: Session, *words: int) -> None:
    """Let steps wait for others: in CUDA 12 their number is where 13 has a pointer or null."""
    count = words[3] if 0 < words[3] < LEAST_POINTER else words[4]
    add_edges(s, words[1], words[2], count)


# -- capture ------------------------------------------------------------------------------------


@entry("cuStreamBeginCapture_v2", "cuStreamBeginCapture", "cudaStreamBeginCapture")
def begin_capture(s: Session, stream: int) -> None:
    """Let a stream's work go into a new graph."""
    found = _idle(s, stream)
    found.capture, found.tail = s.new_graph(), []


@entry("cuStreamBeginCaptureToGraph", "cudaStreamBeginCaptureToGraph")
def begin_capture_to(s: Session, *words: int) -> None:
    """Let a stream's work go into a graph that there is; its first step waits for those given."""
    stream, graph, before, _edges, count = words[:5]
    found = _idle(s, stream)
    found.capture, found.tail = s.get(graph, Graph), steps_at(s, before, count)


def _idle(s: Session, stream: int) -> Stream:
    """The stream, which may begin a capture."""
    found = s.stream(stream)
    if found.capture is not None or not stream:
        raise CudaError(Status.CAPTURE_UNSUPPORTED if not stream else Status.ILLEGAL_STATE)
    return found


def steps_at(s: Session, address: int, count: int) -> list[Node]:
    """The steps whose handles lie there."""
    return [s.get(handle, Node) for handle in s.program.read_words(address, f"{count}Q")]


@entry("cuStreamEndCapture", "cudaStreamEndCapture")
def end_capture(s: Session, stream: int, out: int) -> None:
    """Give the graph; streams that had joined are captured no more."""
    graph = s.stream(stream).capture
    if graph is None:
        raise CudaError(Status.ILLEGAL_STATE)
    for other in s.all_of(Stream).values():
        if other.capture is graph:
            other.capture, other.tail = None, []
    s.program.put(out, "Q", graph.handle)


@entry("cuStreamIsCapturing", "cudaStreamIsCapturing")
def is_capturing(s: Session, stream: int, out: int) -> None:
    """Say whether a stream is captured."""
    captured = s.stream(stream).capture is not None
    s.program.put(out, "I", CAPTURING if captured else NOT_CAPTURING)


def _capture_state(s: Session, stream: int, status: int, identifier: int) -> Stream:
    found = s.stream(stream)
    s.program.put(status, "I", NOT_CAPTURING if found.capture is None else CAPTURING)
    s.program.put(identifier, "Q", 0 if found.capture is None else found.capture.handle)
    return found


def _capture_graph(s: Session, stream: Stream, graph: int, tail: int, count: int) -> None:
    """Give the graph of a capture and the steps that its next one waits for."""
    if stream.capture is None:
        return
    s.program.put(graph, "Q", stream.capture.handle)
    handles = [node.handle for node in stream.tail]
    place = s.arena.allocate(8 * max(len(handles), 1), "pinned") if tail else 0
    s.program.put(place, f"{len(handles)}Q", *handles)
    s.program.put(tail, "Q", place)
    s.program.put(count, "Q", len(handles))


@entry("cuStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v2")
def capture_info(s: Session, *words: int) -> None:
    """Give the state of a capture, its number, its graph, and the steps before the next one."""
    stream, status, identifier, graph, tail, count = words[:6]
    _capture_graph(s, _capture_state(s, stream, status, identifier), graph, tail, count)


@entry("cuStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo_v3")
def capture_info_edges(s: Session, *words: int) -> None:
    """The same; all edges are plain ones."""
    stream, status, identifier, graph, tail, edges, count = words[:7]
    s.program.put(edges, "Q", 0)
    _capture_graph(s, _capture_state(s, stream, status, identifier), graph, tail, count)


@entry("cuStreamGetCaptureInfo", "cudaStreamGetCaptureInfo")
def capture_info_by_version(s: Session, *words: int) -> None:
    """Give the state; since CUDA 13 also the graph, to variables that lie near the first one."""
    stream, status, identifier, graph = words[:4]
    if graph and status and abs(graph - status) < NEAR:
        capture_info_edges(s, *words)
        return
    _capture_state(s, stream, status, identifier)


@entry(
    "cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2",
    "cudaStreamUpdateCaptureDependencies", "cudaStreamUpdateCaptureDependencies_v2",
)  # fmt: skip
def update_tail(s: Session, *words: int) -> None:
    """Set or add what the next step waits for; before CUDA 13 there are no words on edges."""
    stream, steps, edges, count, flags = words[:5]
    if 0 < edges < LEAST_POINTER:
        count, flags = edges, count
    found = s.stream(stream)
    if found.capture is None:
        raise CudaError(Status.ILLEGAL_STATE)
    given = steps_at(s, steps, count)
    found.tail = given if flags & SET_TAIL else [*found.tail, *given]


@entry("cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode")
def exchange_mode(s: Session, mode: int) -> None:
    """Keep how strictly a thread captures, which has no effect."""
    (given,) = s.program.read_words(mode, "I")
    before = s.runtime.get("capture mode", 0)
    s.runtime["capture mode"] = given
    s.program.put(mode, "I", before)
