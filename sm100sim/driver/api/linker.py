"""The linker for PTX (CUDA Driver API, `cuLinkCreate` and what follows)."""

from __future__ import annotations

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


@entry("cuLinkComplete")
def complete(s: Session, state: int, image: int, size: int) -> None:
    """Give an image that `cuModuleLoadData` takes: one PTX text of all that was added."""
    found = s.get(state, LinkState)
    if not found.texts:
        raise CudaError(Status.INVALID_VALUE, "nothing was added")
    try:
        text = joined(found.texts)
    except (JoinError, PtxError) as error:
        raise CudaError(Status.INVALID_PTX, str(error)) from None
    raw = LINKED_MAGIC + text.encode() + b"\0"
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
