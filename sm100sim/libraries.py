"""The C libraries of this package: from which files, and with which flags, they are made.

``engine.shipped`` finds them in a wheel, ``engine.build`` compiles them. Flags that name a
processor are not among those here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Library:
    """A shared library.

    Attributes:
        name: stem of its file name.
        files: C files.
        flags: compiler flags.
        include: folder from which the files name their headers, or None.
    """

    name: str
    files: tuple[Path, ...]
    flags: tuple[str, ...]
    include: Path | None = None

    @property
    def headers(self) -> tuple[Path, ...]:
        """The headers it may include."""
        return () if self.include is None else tuple(sorted(self.include.rglob("*.h")))


def engine() -> Library:
    """Return the library that executes programs."""
    folder = HERE / "engine"
    flags = ("-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC")
    return Library("sm100sim_engine", tuple(sorted(folder.rglob("*.c"))), flags, folder)


def shim() -> Library:
    """Return the library that takes the driver calls of CuTe DSL's runtime."""
    flags = ("-O2", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden")
    return Library("sm100sim_shim", (HERE / "host" / "shim.c",), flags)


STAND_INS: Final = {
    "libcuda.so.1": "libcuda.c",
    "libcudart.so.12": "libcudart.c",
    "libcudart.so.13": "libcudart.c",
    "libnvidia-ml.so.1": "libnvml.c",
    "libnvJitLink.so.13": "libnvjitlink.c",
}
"""Libraries in place of those of a CUDA installation: name for the linker, and source."""


def stand_in(name: str) -> Library:
    """Return a library of :data:`STAND_INS`."""
    folder = HERE / "driver" / "c"
    source = folder / STAND_INS[name]
    # The runtime's functions have its name as their version, as programs ask for them.
    link = (f"-Wl,-soname,{name}", "-Wl,--default-symver", "-Wl,--no-as-needed")
    base = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
    return Library(f"sm100sim_{source.stem}", (source,), (*base, *link, "-ldl"), folder)
