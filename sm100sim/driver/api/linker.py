"""The linker for PTX: `cuLinkCreate` and what follows (CUDA Driver API), and nvJitLink."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from ...ptx.errors import PtxError
from ...ptx.join import JoinError, joined
from ..base.codes import CudaError, Status
from ..base.device_runtime import DEVICE_RUNTIME, is_device_runtime
from ..base.images import LINKED_MAGIC, machine_code, ptx_at, ptx_of
from ..base.objects import LinkState
from ..base.session import Session
from ..base.table import U32, entry

CUBIN, PTX, FATBIN, OBJECT, LIBRARY = 0, 1, 2, 3, 4
"""`CUjitInputType`."""


@entry("cuLinkCreate_v2", "cuLinkCreate")
def create_link(s: Session, _count: U32, _options: int, _values: int, out: int) -> None:
    """Begin."""
    s.program.put(out, "Q", s.new(LinkState()))


def _add(
    s: Session, state: int, kind: int, read: Callable[[], bytes], ptx: Callable[[], str]
) -> None:
    """Add PTX; of the device runtime's library what stands for it here."""
    texts = s.get(state, LinkState).texts
    if kind in (PTX, FATBIN):
        texts.append(ptx())
    elif kind != LIBRARY or not is_device_runtime(read()):
        raise CudaError(Status.NO_BINARY, machine_code([f"input of type {kind}"]))
    elif DEVICE_RUNTIME not in texts:
        texts.append(DEVICE_RUNTIME)


@entry("cuLinkAddData_v2", "cuLinkAddData")
def add_data(s: Session, state: int, kind: U32, data: int, size: int) -> None:
    """Add an image from memory."""
    program = s.program
    _add(s, state, kind, lambda: program.read(data, size),
         lambda: ptx_at(data, program.read, program.string))  # fmt: skip


@entry("cuLinkAddFile_v2", "cuLinkAddFile")
def add_file(s: Session, state: int, kind: U32, path: int) -> None:
    """Add an image from a file."""
    try:
        image = Path(s.program.string(path)).read_bytes()
    except OSError as error:
        raise CudaError(Status.FILE_NOT_FOUND, str(error)) from None
    _add(s, state, kind, lambda: image, lambda: ptx_of(image))


def _linked(found: LinkState) -> bytes:
    """One image of all that was added."""
    if not found.texts:
        raise CudaError(Status.INVALID_VALUE, "nothing was added")
    try:
        text = joined(found.texts)
    except (JoinError, PtxError) as error:
        raise CudaError(Status.INVALID_PTX, str(error)) from None
    return LINKED_MAGIC + text.encode() + b"\0"


@entry("cuLinkComplete")
def complete(s: Session, state: int, image: int, size: int) -> None:
    """Give an image that `cuModuleLoadData` takes: one PTX text of all that was added."""
    found = s.get(state, LinkState)
    raw = _linked(found)
    found.image = s.arena.allocate(len(raw), "pinned")
    s.program.write(found.image, raw)
    s.program.put(image, "Q", found.image)
    s.program.put(size, "Q", len(raw))


@entry("cuLinkDestroy")
def destroy_link(s: Session, state: int) -> None:
    """Forget the linker and its image."""
    found = s.drop(state, LinkState)
    if found.image:
        s.arena.free(found.image)


# ---- nvJitLink ----------------------------------------------------------------------------------
JIT_KINDS = {1: CUBIN, 2: PTX, 4: FATBIN, 5: OBJECT, 6: LIBRARY, 10: PTX}
"""`nvJitLinkInputType`, but for LTO-IR and index files, as `CUjitInputType`."""
UNKNOWN_OPTION, NO_ARCHITECTURE, INVALID, PTX_WRONG, WRONG_KIND = 1, 2, 3, 4, 12
"""`nvJitLinkResult`."""


def _jit(name: str) -> tuple[str, str]:
    """The names of a function in the library."""
    return f"nvJitLink{name}", f"__nvJitLink{name}_13_0"


def _tried(found: LinkState, act: Callable[[], object], wrong: int) -> int:
    """Do it; where that fails, keep the reason for the log and return `wrong`."""
    try:
        act()
    except CudaError as error:
        found.errors += f"{error}\n"
        return wrong
    return 0


@entry(*_jit("Create"))
def jit_create(s: Session, out: int, count: U32, options: int) -> int:
    """Begin; options that ask for other outputs or inputs than PTX are refused."""
    words = struct.unpack(f"<{count}Q", s.program.read(options, 8 * count))
    given = [s.program.string(word) for word in words]
    if any(option in ("-lto", "-ptx") for option in given):
        return UNKNOWN_OPTION
    if not any(option.startswith("-arch=") for option in given):
        return NO_ARCHITECTURE
    s.program.put(out, "Q", s.new(LinkState()))
    return 0


@entry(*_jit("AddData"))
def jit_add_data(s: Session, state: int, kind: U32, data: int, size: int) -> int:
    """Add an image from memory."""
    if kind not in JIT_KINDS:
        return WRONG_KIND
    return _tried(
        s.get(state, LinkState), lambda: add_data(s, state, JIT_KINDS[kind], data, size), INVALID
    )


@entry(*_jit("AddFile"))
def jit_add_file(s: Session, state: int, kind: U32, path: int) -> int:
    """Add an image from a file."""
    if kind not in JIT_KINDS:
        return WRONG_KIND
    return _tried(
        s.get(state, LinkState), lambda: add_file(s, state, JIT_KINDS[kind], path), INVALID
    )


@entry(*_jit("Complete"))
def jit_complete(s: Session, state: int) -> int:
    """Link all that was added."""
    found = s.get(state, LinkState)

    def link() -> None:
        found.raw = _linked(found)

    return _tried(found, link, PTX_WRONG if found.texts else INVALID)


@entry(*_jit("GetLinkedCubinSize"))
def jit_size(s: Session, state: int, out: int) -> int:
    """Give the size of what `cuModuleLoadData` takes here in place of a cubin."""
    found = s.get(state, LinkState)
    s.program.put(out, "Q", len(found.raw))
    return 0 if found.raw else INVALID


@entry(*_jit("GetLinkedCubin"))
def jit_image(s: Session, state: int, out: int) -> int:
    """Give it."""
    found = s.get(state, LinkState)
    s.program.write(out, found.raw)
    return 0 if found.raw else INVALID


@entry(*_jit("GetErrorLogSize"))
def jit_errors_size(s: Session, state: int, out: int) -> None:
    """Give the size of the log, with its final zero."""
    s.program.put(out, "Q", len(s.get(state, LinkState).errors.encode()) + 1)


@entry(*_jit("GetErrorLog"))
def jit_errors(s: Session, state: int, out: int) -> None:
    """Give what was wrong."""
    s.program.write(out, s.get(state, LinkState).errors.encode() + b"\0")


@entry(*_jit("GetInfoLogSize"))
def jit_remarks_size(s: Session, _state: int, out: int) -> None:
    """Say that there are no remarks: a zero alone."""
    s.program.put(out, "Q", 1)


@entry(*_jit("GetInfoLog"))
def jit_remarks(s: Session, _state: int, out: int) -> None:
    """Give none."""
    s.program.write(out, b"\0")


@entry(*_jit("Destroy"))
def jit_destroy(s: Session, handle: int) -> None:
    """Forget the linker."""
    (state,) = struct.unpack("<Q", s.program.read(handle, 8))
    s.drop(state, LinkState)
