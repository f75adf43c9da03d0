"""Graphs that are built step by step (CUDA Runtime API, "Graph Management")."""

from __future__ import annotations

from typing import Final

from ..api.context import calling
from ..api.copies import copying
from ..api.graph_nodes import add_step, set_work
from ..api.launches import Shape, dims, launching
from ..base.session import COPY_NODE, HOST_NODE, KERNEL_NODE, SET_NODE, Session
from ..base.table import entry
from .memory import copying_parameters
from .registration import function_at

_KERNEL: Final = "Q7I4xQQ"


@entry("cudaGraphAddKernelNode")
def add_kernel(s: Session, *words: int) -> None:
    """Add a launch."""
    stub, *extents, smem, pointers, extra = s.program.read_words(words[4], _KERNEL)
    shape = Shape(dims(extents[:3]), dims(extents[3:]), smem)
    work = launching(s, function_at(s, stub), shape, pointers, extra)
    add_step(s, words, KERNEL_NODE, work)


@entry("cudaGraphAddMemcpyNode")
def add_copy(s: Session, *words: int) -> None:
    """Add a copy of planes."""
    add_step(s, words, COPY_NODE, copying_parameters(s, words[4]))


@entry("cudaGraphAddMemcpyNode1D")
def add_copy_1d(s: Session, *words: int) -> None:
    """Add a copy."""
    add_step(s, words, COPY_NODE, copying(s, words[4], words[5], words[6]))


@entry("cudaGraphAddMemsetNode")
def add_set(s: Session, *words: int) -> None:
    """Add a fill."""
    add_step(s, words, SET_NODE, set_work(s, words[4]))


@entry("cudaGraphAddHostNode")
def add_host(s: Session, *words: int) -> None:
    """Add a call of the program."""
    function, data = s.program.read_words(words[4], "QQ")
    add_step(s, words, HOST_NODE, calling(s, function, data))
