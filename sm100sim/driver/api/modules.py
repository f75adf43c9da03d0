"""Modules and libraries (CUDA Driver API, "Module Management", "Library Management").

Global variables are placed when a module is loaded, once for all its kernels. A kernel of a library
and the function of a module have one kind of handle.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ...isa.linking import code_address
from ...ptx.program import GlobalVar
from ...run import read_module
from ..base.codes import CudaError, Status
from ..base.images import ptx_at, ptx_of
from ..base.objects import Function, Module
from ..base.session import Session
from ..base.table import U32, entry

NOWHERE: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})
GRID_WORKSPACE_BYTES = 64
LAZY = 2
"""`CU_MODULE_LAZY_LOADING`."""


def load_text(s: Session, ptx: str, given: Mapping[str, tuple[int, int]] = NOWHERE) -> int:
    """A handle of the module with this PTX.

    Args:
        s: the session.
        ptx: the module's text.
        given: address and bytes of variables that lie somewhere already.

    Raises:
        CudaError: there is no memory for its variables.
        PtxError: it cannot be read.
    """
    s.check()
    program = read_module(ptx)
    placed = {}

    def new(variable: GlobalVar) -> int:
        return s.arena.allocate(variable.size_bytes, name=variable.name)

    variables = _placeable(program.globals, program.functions)
    for variable in variables:
        address, _ = given.get(variable.name) or (new(variable), 0)
        placed[variable.name] = (address, variable.size_bytes)
        if variable.init:
            s.program.write(address, variable.init)
    for variable in variables:
        for offset, name, added in variable.links:
            function = program.functions.get(name)
            to = code_address(function) if function else placed[name][0]
            s.program.put(placed[variable.name][0] + offset, "Q", to + added)
    return s.new(Module(ptx, program, placed, _registers(s, ptx)))


def _registers(s: Session, ptx: str) -> dict[str, int]:
    """Where the grid's barrier lies, if the module asks: the address in two registers.

    `cooperative_groups/details/driver_abi.h` of the toolkit reads them.
    """
    if "%envreg" not in ptx:
        return {}
    workspace = s.arena.allocate(GRID_WORKSPACE_BYTES, name="grid workspace")
    return {"%envreg1": workspace >> 32, "%envreg2": workspace & 0xFFFFFFFF}


def _placeable(variables: Sequence[GlobalVar], functions: Container[str]) -> list[GlobalVar]:
    """The variables whose initial values name functions and variables that have a place, too."""
    found = {v.name: v for v in variables if v.space != "shared" and not v.extern}
    while True:
        kept = {
            name: v for name, v in found.items()
            if all(link in found or link in functions for _, link, _ in v.links)
        }  # fmt: skip
        if len(kept) == len(found):
            return list(kept.values())
        found = kept


def load_image(s: Session, image: int) -> int:
    """A handle of the module of an image in the program's memory; see `load_text`."""
    return load_text(s, ptx_at(image, s.program.read, s.program.string))


def function_of(s: Session, module: int, name: str) -> int:
    """The handle of a kernel.

    Raises:
        CudaError: the module has none of this name.
    """
    found = s.get(module, Module)
    if name not in found.program.kernels:
        has = ", ".join(found.program.kernels) or "none"
        raise CudaError(Status.NOT_FOUND, f"no kernel {name!r} in the module; it has {has}")
    if name not in found.functions:
        found.functions[name] = s.new(Function(found, found.program.kernels[name]))
    return found.functions[name]


def _file(path: str) -> str:
    try:
        return ptx_of(Path(path).read_bytes())
    except OSError as error:
        raise CudaError(Status.FILE_NOT_FOUND, str(error)) from None


@entry("cuModuleLoadData", "cuModuleLoadFatBinary", "cuModuleLoadDataEx", "cuLibraryLoadData",
       "cudaLibraryLoadData")  # fmt: skip
def load(s: Session, out: int, image: int) -> None:
    """Load an image from memory."""
    s.program.put(out, "Q", load_image(s, image))


@entry("cuModuleLoad", "cuLibraryLoadFromFile", "cudaLibraryLoadFromFile")
def load_file(s: Session, out: int, path: int) -> None:
    """Load an image from a file."""
    s.program.put(out, "Q", load_text(s, _file(s.program.string(path))))


@entry("cuModuleUnload", "cuLibraryUnload", "cudaLibraryUnload")
def unload(s: Session, module: int) -> None:
    """Free a module's variables and forget it."""
    found = s.drop(module, Module)
    for handle in found.functions.values():
        s.drop(handle, Function)
    for address, _ in found.placed.values():
        s.arena.free(address)


@entry("cuModuleGetFunction", "cuLibraryGetKernel", "cudaLibraryGetKernel")
def get_function(s: Session, out: int, module: int, name: int) -> None:
    """Give a kernel by its name."""
    s.program.put(out, "Q", function_of(s, module, s.program.string(name)))


@entry("cuKernelGetFunction", "cuLibraryGetModule")
def same_handle(s: Session, out: int, handle: int) -> None:
    """Give the function of a kernel, or the module of a library: the same here."""
    s.program.put(out, "Q", handle)


@entry("cuKernelGetLibrary", "cuFuncGetModule")
def module_of(s: Session, out: int, function: int) -> None:
    """Give the module of a kernel."""
    wanted = s.get(function, Function).module
    handles = [handle for handle, module in s.all_of(Module).items() if module is wanted]
    s.program.put(out, "Q", handles[0])


@entry("cuLibraryGetKernelCount", "cuModuleGetFunctionCount", "cudaLibraryGetKernelCount")
def kernel_count(s: Session, out: int, module: int) -> None:
    """Give the number of kernels."""
    s.program.put(out, "I", len(s.get(module, Module).program.kernels))


@entry("cuLibraryEnumerateKernels", "cuModuleEnumerateFunctions", "cudaLibraryEnumerateKernels")
def all_kernels(s: Session, out: int, count: U32, module: int) -> None:
    """Give the first kernels."""
    names = list(s.get(module, Module).program.kernels)[:count]
    handles = [function_of(s, module, name) for name in names]
    s.program.put(out, f"{len(handles)}Q", *handles)


@entry("cuFuncGetName", "cuKernelGetName")
def function_name(s: Session, out: int, function: int) -> None:
    """Give a kernel's name."""
    s.program.put(out, "Q", s.text(s.get(function, Function).kernel.name))


@entry("cuModuleGetGlobal_v2", "cuLibraryGetGlobal", "cudaLibraryGetGlobal")
def global_variable(s: Session, address: int, size: int, module: int, name: int) -> None:
    """Give where a variable lies."""
    text = s.program.string(name)
    placed = s.get(module, Module).placed
    if text not in placed:
        raise CudaError(Status.NOT_FOUND)
    s.program.put(address, "Q", placed[text][0])
    s.program.put(size, "Q", placed[text][1])


@entry("cuModuleGetLoadingMode")
def loading_mode(s: Session, out: int) -> None:
    """Say that kernels are prepared when they are first used."""
    s.program.put(out, "I", LAZY)


@entry("cuFuncIsLoaded")
def is_loaded(s: Session, out: int, function: int) -> None:
    """Say yes."""
    s.get(function, Function)
    s.program.put(out, "I", 1)


@entry("cuFuncLoad")
def load_function(s: Session, function: int) -> None:
    """Do nothing: a function is there when it has a handle."""
    s.get(function, Function)


@entry("cuFuncGetParamInfo", "cuKernelGetParamInfo")
def parameter(s: Session, function: int, index: int, offset: int, size: int) -> None:
    """Give offset and bytes of a parameter."""
    params = s.get(function, Function).kernel.params
    if index >= len(params):
        raise CudaError(Status.INVALID_VALUE)
    s.program.put(offset, "Q", params[index].offset)
    s.program.put(size, "Q", params[index].size)
