"""Graphs built step by step (CUDA Runtime API, "Graph Management"), where the words differ."""

from __future__ import annotations

from typing import Final

from ..api.copies import copying
from ..api.graph_nodes import add_any, add_step, change
from ..api.launches import Shape, dims, launching
from ..base.objects import GraphProgram, Node, Work
from ..base.session import COPY_NODE, KERNEL_NODE, Session
from ..base.table import entry
from .memory import copying_parameters
from .registration import function_at

_KERNEL: Final = "Q7I4xQQ"


def _kernel_work(s: Session, parameters: int) -> Work:
    """Work of `cudaKernelNodeParams`."""
    stub, *extents, smem, pointers, extra = s.program.read_words(parameters, _KERNEL)
    shape = Shape(dims(extents[:3]), dims(extents[3:]), smem)
    return launching(s, function_at(s, stub), shape, pointers, extra)


@entry("cudaGraphAddNode", "cudaGraphAddNode_v2")
def add_node(s: Session, *words: int) -> None:
    """Add a step of any kind."""
    add_any(s, words, _kernel_work, copying_parameters)


@entry("cudaGraphAddKernelNode")
def add_kernel(s: Session, *words: int) -> None:
    """Add a launch."""
    add_step(s, words, KERNEL_NODE, _kernel_work(s, words[4]))


@entry("cudaGraphKernelNodeSetParams")
def set_kernel(s: Session, node: int, parameters: int) -> None:
    """Change a launch of a graph."""
    change([s.get(node, Node)], node, KERNEL_NODE, _kernel_work(s, parameters))


@entry("cudaGraphExecKernelNodeSetParams")
def set_program_kernel(s: Session, program: int, node: int, parameters: int) -> None:
    """Change a launch of an instantiated graph."""
    work = _kernel_work(s, parameters)
    change(s.get(program, GraphProgram).nodes, node, KERNEL_NODE, work)


@entry("cudaGraphExecMemcpyNodeSetParams1D")
def set_program_copy(s: Session, *words: int) -> None:
    """Change a copy of an instantiated graph."""
    work = copying(s, words[2], words[3], words[4])
    change(s.get(words[0], GraphProgram).nodes, words[1], COPY_NODE, work)


@entry("cudaGraphAddMemcpyNode")
def add_copy(s: Session, *words: int) -> None:
    """Add a copy of planes."""
    add_step(s, words, COPY_NODE, copying_parameters(s, words[4]))


@entry("cudaGraphAddMemcpyNode1D")
def add_copy_1d(s: Session, *words: int) -> None:
    """Add a copy."""
    add_step(s, words, COPY_NODE, copying(s, words[4], words[5], words[6]))
