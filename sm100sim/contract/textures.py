"""Textures and surfaces: numbers that stand for words, and what a handle points at."""

from __future__ import annotations

import ctypes as ct
from enum import IntEnum

U8, U32, U64 = ct.c_uint8, ct.c_uint32, ct.c_uint64

TEXTURE_MARK = 0x5D7E
"""First word of a texture record: a handle that points elsewhere is none."""
SURFACE_MODES = ("trap", "clamp", "zero")
"""What an access outside of a surface does."""
TEXTURE_FACTS = ("width", "height", "depth", "array_size", "normalized_coords")
"""What txq and suq answer."""


class TexelType(IntEnum):
    """Type of the channels of a texture, and of what a fetch gives."""

    UNSIGNED = 0
    SIGNED = 1
    FLOAT = 2


class Outside(IntEnum):
    """How a coordinate outside of a texture is read (`CUaddress_mode`)."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


class TextureRecord(ct.Structure):
    """What the handle of a texture or surface object points at.

    `mark`: TEXTURE_MARK; `layers`: 0 where it is not layered, and faces of a cube count; `address`:
    of the first texel; `pitch`, `slice`: bytes to the next row, and to the next plane or layer;
    `size`: texels along x, y, z, 1 where there is no such dimension; `border`: bits of f32;
    `outside`: an Outside for each dimension; `normalized`: coordinates; `fraction`: integers are
    read as fractions of the largest one; `surface`: kernels may write it; `memory`: texels in
    linear memory, fetched by integers.
    """

    _fields_ = [
        ("mark", U32), ("layers", U32), ("address", U64), ("pitch", U64), ("slice", U64),
        ("size", U32 * 3), ("border", U32 * 4), ("rank", U8), ("channels", U8),
        ("channel_bytes", U8), ("type", U8), ("outside", U8 * 3), ("cube", ct.c_bool),
        ("linear", ct.c_bool), ("normalized", ct.c_bool), ("fraction", ct.c_bool),
        ("surface", ct.c_bool), ("memory", ct.c_bool),
    ]  # fmt: skip
