"""Graphs and capture (CUDA Driver API, "Graph Management"); a launch does the steps in order."""

from __future__ import annotations

from ..base.codes import CudaError, Status
from ..base.objects import Graph, GraphProgram, Node, Stream
from ..base.session import GRAPH_NODE, Session
from ..base.table import entry

NOT_CAPTURING, CAPTURING = 0, 1
"""`CUstreamCaptureStatus`."""
LEAST_POINTER = 1 << 32


@entry("cuGraphCreate", "cudaGraphCreate")
def create_graph(s: Session, out: int) -> None:
    """Make an empty graph."""
    s.program.put(out, "Q", s.new(Graph()))


@entry("cuGraphDestroy", "cudaGraphDestroy")
def destroy_graph(s: Session, graph: int) -> None:
    """Forget a graph and its steps."""
    for node in s.drop(graph, Graph).nodes:
        s.drop(node.handle, Node)


@entry("cuGraphClone", "cudaGraphClone")
def clone_graph(s: Session, out: int, graph: int) -> None:
    """Make a graph with the same steps."""
    copy = Graph()
    twins: dict[int, Node] = {}
    for node in s.get(graph, Graph).ordered():
        after = [twins[id(other)] for other in node.after]
        twins[id(node)] = s.add_node(copy, node.kind, node.work, after)
    s.program.put(out, "Q", s.new(copy))


@entry(
    "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags",
    "cudaGraphInstantiateWithParams",
)  # fmt: skip
def instantiate(s: Session, out: int, graph: int) -> None:
    """Keep the steps as they are now."""
    s.program.put(out, "Q", s.new(GraphProgram(_steps(s.get(graph, Graph)))))


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
    nodes = s.get(program, GraphProgram).nodes

    def work() -> None:
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
    found = s.stream(stream)
    if found.capture is not None or not stream:
        raise CudaError(Status.CAPTURE_UNSUPPORTED if not stream else Status.ILLEGAL_STATE)
    found.capture, found.last = Graph(), None


@entry("cuStreamEndCapture", "cudaStreamEndCapture")
def end_capture(s: Session, stream: int, out: int) -> None:
    """Give the graph; streams that had joined are captured no more."""
    graph = s.stream(stream).capture
    if graph is None:
        raise CudaError(Status.ILLEGAL_STATE)
    for other in s.all_of(Stream).values():
        if other.capture is graph:
            other.capture = other.last = None
    s.program.put(out, "Q", s.new(graph))


@entry("cuStreamIsCapturing", "cudaStreamIsCapturing")
def is_capturing(s: Session, stream: int, out: int) -> None:
    """Say whether a stream is captured."""
    captured = s.stream(stream).capture is not None
    s.program.put(out, "I", CAPTURING if captured else NOT_CAPTURING)


@entry(
    "cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3",
    "cudaStreamGetCaptureInfo", "cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo_v3",
)  # fmt: skip
def capture_info(s: Session, stream: int, status: int, identifier: int, graph: int) -> None:
    """Give the state of a capture and its number; who asks for the graph gets none."""
    found = s.stream(stream).capture
    s.program.put(status, "I", NOT_CAPTURING if found is None else CAPTURING)
    s.program.put(identifier, "Q", 0 if found is None else id(found))
    if found is not None and graph:
        raise CudaError(Status.NOT_SUPPORTED, "a graph cannot be asked for while it is captured")


@entry("cuThreadExchangeStreamCaptureMode", "cudaThreadExchangeStreamCaptureMode")
def exchange_mode(s: Session, mode: int) -> None:
    """Keep how strictly a thread captures, which has no effect."""
    (given,) = s.program.read_words(mode, "I")
    before = s.runtime.get("capture mode", 0)
    s.runtime["capture mode"] = given
    s.program.put(mode, "I", before)
