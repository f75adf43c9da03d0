"""Handlers of the CUDA runtime API, on those of the driver API."""

from . import (  # noqa: F401  (they register themselves)
    device,
    graphs,
    launches,
    memory,
    registration,
    symbols,
)
