"""The linker for PTX (CUDA Driver API, `cuLinkCreate` and what follows)."""

from __future__ import annotations

from pathlib import Path

from ...ptx.errors import PtxError
from ...ptx.join import JoinError, joined
from ..base.codes import CudaError, Status
from ..base.device_runtime import DEVICE_RUNTIME, NAME
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


def _kind(kind: int, path: str = "") -> None:
    if kind not in (PTX, FATBIN) and (kind, Path(path).name) != (LIBRARY, NAME):
        raise CudaError(Status.NO_BINARY, machine_code([f"input of type {kind}"]))


@entry("cuLinkAddData_v2", "cuLinkAddData")
def add_data(s: Session, state: int, kind: U32, data: int, _size: int) -> None:
    """Add PTX from memory."""
    _kind(kind)
    text = ptx_at(data, s.program.read, s.program.string)
    s.get(state, LinkState).texts.append(text)


@entry("cuLinkAddFile_v2", "cuLinkAddFile")
def add_file(s: Session, state: int, kind: U32, path: int) -> None:
    """Add PTX from a file; of the device runtime's library what stands for it here."""
    name = s.program.string(path)
    _kind(kind, name)
    try:
        image = Path(name).read_bytes()
    except OSError as error:
        raise CudaError(Status.FILE_NOT_FOUND, str(error)) from None
    texts = s.get(state, LinkState).texts
    if kind != LIBRARY:
        texts.append(ptx_of(image))
    elif DEVICE_RUNTIME not in texts:
        texts.append(DEVICE_RUNTIME)


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
