"""Handlers of the CUDA driver API, and of what programs ask of NVML."""

from . import (  # noqa: F401  (they register themselves)
    addresses,
    context,
    copies,
    device,
    entry_points,
    events,
    functions,
    graph_nodes,
    graphs,
    launches,
    linker,
    memory,
    modules,
    nvml,
    tensor_maps,
)
