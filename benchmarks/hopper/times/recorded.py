"""Launches that were recorded where the kernel's compiler is, to be made where it is not.

A folder holds ``launches.json`` and cubins. A launch is what a driver wants: grid, block, cluster,
shared memory and the bytes of the parameters. A launch is recorded twice, with the tensors at other
addresses: the words that move with a tensor are those that move with another one of the same
layout. A tensor map begins with such a word, and its last 64 bytes are not needed
(benchmarks/hopper/README.md).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

WORD: Final = 8
MODULUS: Final = 2**64
LOW: Final = 2**32 - 1
LAUNCHES: Final = "launches.json"
Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class Place:
    """A word that moves with a tensor: in parameter `param` at byte `offset`, `delta` bytes after
    the start of `tensor`, modulo 2^64. Maps of ragged tensors begin far in front of them."""

    param: int
    offset: int
    tensor: str
    delta: int


@dataclass(frozen=True)
class Recorded:
    """One launch.

    Attributes:
        kernel: entry in the cubin `image`, a file of the folder.
        grid, block, cluster: extents in x, y, z.
        smem_bytes: dynamic shared memory.
        params: bytes of each parameter, with the addresses of the recording.
        places: where these addresses are.
    """

    kernel: str
    image: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    smem_bytes: int
    params: tuple[bytes, ...]
    places: tuple[Place, ...]

    def patched(self, addresses: Mapping[str, int]) -> tuple[bytes, ...]:
        """The parameters for tensors at other addresses.

        Raises:
            KeyError: a tensor of the launch is not among them.
        """
        params = [bytearray(raw) for raw in self.params]
        for place in self.places:
            address = (addresses[place.tensor] + place.delta) % MODULUS
            struct.pack_into("<Q", params[place.param], place.offset, address)
        return tuple(bytes(raw) for raw in params)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        params = [base64.b64encode(raw).decode() for raw in self.params]
        return {**asdict(self), "params": params}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Recorded:
        """The launch of :meth:`to_json`."""
        triples = {name: tuple(row[name]) for name in ("grid", "block", "cluster")}
        params = tuple(base64.b64decode(text) for text in row["params"])
        places = tuple(Place(**place) for place in row["places"])
        return cls(**{**row, **triples, "params": params, "places": places})


Side = tuple[tuple[bytes, ...], Mapping[str, int]]
"""Parameters of a launch, and the addresses that its tensors had: name -> address."""


def places_of(first: Side, second: Side) -> list[Place]:
    """The words that differ between two recordings of a launch, each of a tensor that moved as far.

    A number of 32 bits may have anything after it.

    Raises:
        ValueError: two tensors moved alike, or a word changed and moved with no tensor.
    """
    before, after = first[1], second[1]
    moves = {(after[name] - before[name]) % MODULUS: name for name in before}
    if len(moves) != len(before) or 0 in moves:
        raise ValueError("every tensor has to move by a distance of its own")
    found = []
    for index, (old, new) in enumerate(zip(first[0], second[0], strict=True)):
        for offset in range(0, len(old) - WORD + 1, WORD):
            (a,), (b,) = (struct.unpack_from("<Q", raw, offset) for raw in (old, new))
            name = moves.get((b - a) % MODULUS)
            if name is not None:
                found.append(Place(index, offset, name, (a - before[name]) % MODULUS))
            elif a & LOW != b & LOW:
                raise ValueError(f"parameter {index} at byte {offset} moves with no tensor")
    return found


def save(folder: Path, launches: Mapping[str, Recorded], images: Mapping[str, bytes]) -> None:
    """Write launches by the name of their problem, and the cubins that they name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, cubin in images.items():
        (folder / name).write_bytes(cubin)
    rows = {name: launch.to_json() for name, launch in launches.items()}
    (folder / LAUNCHES).write_text(json.dumps(rows, indent=1) + "\n")


def load(folder: Path) -> dict[str, Recorded]:
    """The launches of a folder; none where nothing was recorded."""
    file = folder / LAUNCHES
    rows = json.loads(file.read_text()) if file.is_file() else {}
    return {name: Recorded.from_json(row) for name, row in rows.items()}
