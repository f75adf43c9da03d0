"""What a program holds handles of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...contract.textures import TexelType
from ...ptx.program import Kernel
from ...ptx.program import Module as Program

Work = Callable[[], None]
"""Work on a stream: done at once, or kept in a graph and done when that is launched."""


@dataclass(eq=False)
class Module:
    """A loaded module or library.

    Attributes:
        ptx: its text, and `program` what was read of it.
        placed: address and bytes of its global variables.
        registers: values of the registers that the driver defines.
        functions: handles of its kernels, as far as they were asked for.
    """

    ptx: str
    program: Program
    placed: dict[str, tuple[int, int]]
    registers: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class Function:
    """A kernel of a module, and the attributes that the program has set on it."""

    module: Module
    kernel: Kernel
    attributes: dict[int, int] = field(default_factory=dict)
    cluster: tuple[int, int, int] | None = None


@dataclass(eq=False)
class Context:
    """A context; all of a program's contexts share its memory and modules."""

    flags: int = 0
    primary: bool = False
    users: int = 0


@dataclass(eq=False)
class Node:
    """A step of a graph."""

    kind: int
    work: Work
    after: list[Node] = field(default_factory=list)
    handle: int = 0


@dataclass(eq=False)
class Graph:
    """Steps in the order in which they were added.

    Attributes:
        handle: of the graph.
        conditions: what each launch writes to a condition first, by the condition's address.
    """

    nodes: list[Node] = field(default_factory=list)
    handle: int = 0
    conditions: dict[int, int] = field(default_factory=dict)

    def ordered(self) -> list[Node]:
        """The steps, each after those that it waits for, otherwise in the order of addition."""
        done: dict[int, None] = {}
        found: list[Node] = []

        def visit(node: Node) -> None:
            if id(node) not in done:
                done[id(node)] = None
                for other in node.after:
                    visit(other)
                found.append(node)

        for node in self.nodes:
            visit(node)
        return found

    def run(self) -> None:
        """Do every step."""
        for node in self.ordered():
            node.work()


@dataclass(eq=False)
class GraphProgram:
    """An instantiated graph: the steps and conditions that it had then."""

    nodes: list[Node]
    conditions: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class Stream:
    """A stream; work on it is done before the call returns.

    Attributes:
        capture: the graph that takes the work instead, or None.
        tail: the steps of that graph that the next one waits for.
    """

    flags: int = 0
    priority: int = 0
    capture: Graph | None = None
    tail: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Event:
    """An event: the second at which it was recorded, or None."""

    flags: int = 0
    time: float | None = None
    capture: Graph | None = None
    tail: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Texels:
    """Elements of an array or a texture: how many channels of how many bytes, of which type."""

    channels: int
    channel_bytes: int
    type: TexelType

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return self.channels * self.channel_bytes


@dataclass(eq=False)
class CudaArray:
    """A CUDA array: rows without gaps, since nothing but copies and textures sees how it lies.

    Attributes:
        address: of its memory.
        texels: its elements.
        size: width, height, depth as the program gave them: 0 for a dimension that it lacks; the
            depth of a layered one, or of a cube, counts the layers.
        flags: `CUDA_ARRAY3D_*`.
    """

    address: int
    texels: Texels
    size: tuple[int, int, int]
    flags: int = 0

    @property
    def pitch(self) -> int:
        """Bytes of a row."""
        return self.size[0] * self.texels.bytes

    @property
    def slice(self) -> int:
        """Bytes of a plane or a layer."""
        return self.pitch * max(self.size[1], 1)


@dataclass(eq=False)
class TextureObject:
    """A texture or surface object: its descriptors as the program gave them."""

    resource: bytes
    texture: bytes = b""


@dataclass(eq=False)
class Pool:
    """A memory pool and its attributes."""

    attributes: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class Physical:
    """Memory without an address of its own (`cuMemCreate`); compressible memory holds the same."""

    size: int
    mapped_at: int = 0
    compression: int = 0


@dataclass(eq=False)
class GraphMemory:
    """Device memory that graphs allocate for themselves.

    Attributes:
        live: bytes by address that a launch has allocated and nothing has freed.
        held: bytes that belong to graphs: those, and what was freed since the latest trim.
        highest: the most that `held` was since it was last reset.
    """

    live: dict[int, int] = field(default_factory=dict)
    held: int = 0
    highest: int = 0

    def take(self, address: int, size: int) -> None:
        """A launch has allocated; what other launches have freed is used again."""
        self.live[address] = size
        self.held = max(self.held, sum(self.live.values()))
        self.highest = max(self.highest, self.held)

    def give(self, address: int) -> None:
        """A launch, or the program, has freed."""
        self.live.pop(address, None)

    def trim(self) -> None:
        """Give the device back what nothing uses."""
        self.held = sum(self.live.values())


@dataclass(eq=False)
class LinkState:
    """A linker: PTX texts so far, the image that it gave, and what was wrong."""

    texts: list[str] = field(default_factory=list)
    image: int = 0
    raw: bytes = b""
    errors: str = ""
