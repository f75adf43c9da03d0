"""CUDA arrays, textures and surfaces, of the driver API and of the runtime API."""

from . import (  # noqa: F401  (they register themselves)
    arrays,
    copies,
    textures,
)
