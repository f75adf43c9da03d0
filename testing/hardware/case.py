"""One micro-kernel: a PTX body, its buffers and its launch, the same on the chip and the simulator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from testing.harness import kernel_text

SENTINEL = 0xA5
"""Byte that fills outputs before the launch, so that what was not written shows."""


@dataclass(frozen=True)
class MapArgs:
    """Arguments of a tensor map, all but its address; see `sm100sim.layouts.tensor_map.TensorMap`.

    Attributes:
        buffer: which buffer of the case (inputs first, then outputs) holds the tensor.
    """

    buffer: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    nan_fill: bool = False


@dataclass(frozen=True)
class Case:
    """A micro-kernel.

    Attributes:
        name: unique within the family.
        family: names the record file and the row of docs/hardware.md.
        body: PTX; buffers are %p0..., tensor maps %m0..., numbers %n0... .
        inputs, outputs: buffers in this order; outputs carry their contents before the launch.
        group: what the case is about, within the family (for the page).
        extra: `RunOptions` fields for the simulator.
    """

    name: str
    family: str
    body: str
    inputs: tuple[np.ndarray, ...] = ()
    outputs: tuple[np.ndarray, ...] = ()
    numbers: tuple[int, ...] = ()
    maps: tuple[MapArgs, ...] = ()
    grid: int = 1
    block: int = 32
    cluster: int = 1
    smem: int = 0
    shared: str = ""
    directives: str = ""
    group: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> list[Any]:
        """Buffers, 128 zero bytes for each tensor map, numbers: the order of the parameters."""
        return [*self.inputs, *self.outputs, *(bytes(128) for _ in self.maps), *self.numbers]

    def text(self, target: str) -> str:
        """The PTX module for `.target target`."""
        raw = kernel_text(self.body, self.arguments, shared=self.shared, directives=self.directives)
        return raw.replace("sm_100a", target)

    def digest(self) -> str:
        """Hash of everything that determines the result."""
        h = hashlib.sha256(self.text("any").encode())
        for array in (*self.inputs, *self.outputs):
            h.update(array.tobytes())
        h.update(repr((self.maps, self.numbers, self.grid, self.block, self.cluster)).encode())
        return h.hexdigest()[:16]


def filled(count: int, dtype: Any = np.uint8) -> np.ndarray:
    """An output of `count` elements, every byte `SENTINEL`."""
    return np.full(count * np.dtype(dtype).itemsize, SENTINEL, np.uint8).view(dtype)


WIDTH = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
PREFIX = {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}
BLOCK = 128


def lanes(
    family: str, name: str, text: str, inputs: list[np.ndarray], out: Any, **options: Any
) -> Case:
    """One element per thread: `text` reads $a, $b, $c and writes $d (and $e, a second output).

    `out`: data type of the outputs.  Inputs are repeated up to the longest one's length.
    """
    count = max(len(a) for a in inputs)
    count = (count + BLOCK - 1) // BLOCK * BLOCK
    arrays = tuple(np.resize(np.ascontiguousarray(a), count) for a in inputs)
    lines = [f"mov.u32 %r63, %tid.x; mov.u32 %r62, %ctaid.x; mad.lo.s32 %r63, %r62, {BLOCK}, %r63;"]
    for k, array in enumerate(arrays):
        size = array.itemsize
        reg = f"{PREFIX[size]}{1 + k}"
        lines.append(
            f"mad.wide.u32 %rd63, %r63, {size}, %p{k}; ld.global.{WIDTH[size]} {reg}, [%rd63];"
        )
        text = text.replace("$" + "abc"[k], reg)
    size = np.dtype(out).itemsize
    results = [d for d in "de" if "$" + d in text]
    stores = []
    for k, d in enumerate(results):
        reg = f"{PREFIX[size]}{10 + k}"
        text = text.replace("$" + d, reg)
        pointer = f"%p{len(arrays) + k}"
        stores.append(
            f"mad.wide.u32 %rd63, %r63, {size}, {pointer}; st.global.{WIDTH[size]} [%rd63], {reg};"
        )
    return Case(
        name=name, family=family, body="\n".join([*lines, text, *stores]), inputs=arrays,
        outputs=tuple(filled(count, out) for _ in results), grid=count // BLOCK, block=BLOCK,
        **options,
    )  # fmt: skip
