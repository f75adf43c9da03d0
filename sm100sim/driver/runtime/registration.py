"""What nvcc's code tells the runtime before `main`: images, kernels and variables by host address.

The functions are those that nvcc calls in the host code it writes (`crt/host_runtime.h` of the
toolkit). An image is loaded when a kernel or variable of it is first used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..api.modules import function_of, load_text
from ..base.codes import CudaError, Status
from ..base.images import ptx_at
from ..base.objects import Function, Module
from ..base.session import Session
from ..base.table import entry


@dataclass(eq=False)
class Image:
    """A registered fat binary: where it lies, and its module once that is loaded.

    Attributes:
        managed: address of the variables that host and device share, by name.
    """

    address: int
    module: int = 0
    managed: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class Registered:
    """Names by host address.

    Attributes:
        kernels, variables: the image and the name in it.
        launches: what `<<<...>>>` says, by thread, until the stub of the kernel takes it.
    """

    kernels: dict[int, tuple[Image, str]] = field(default_factory=dict)
    variables: dict[int, tuple[Image, str]] = field(default_factory=dict)
    launches: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)


def registered(s: Session) -> Registered:
    """What the program has registered."""
    found: Registered = s.runtime.setdefault("registered", Registered())
    return found


def module_of(s: Session, image: Image) -> int:
    """The handle of an image's module, which is loaded when it is not yet.

    Raises:
        CudaError: it holds no PTX.
        PtxError: its PTX cannot be read.
    """
    if not image.module:
        ptx = ptx_at(image.address, s.program.read, s.program.string)
        image.module = load_text(s, ptx, image.managed)
    return image.module


def function_at(s: Session, address: int) -> int:
    """The handle of the kernel whose stub is at a host address, or that has this handle.

    Raises:
        CudaError: there is none.
    """
    known = registered(s).kernels.get(address)
    if known is not None:
        return function_of(s, module_of(s, known[0]), known[1])
    if address in s.all_of(Function):
        return address
    raise CudaError(Status.INVALID_FUNCTION, f"no kernel is registered for {address:#x}")


def kernel_at(s: Session, address: int) -> Function:
    """The kernel of `function_at`."""
    return s.get(function_at(s, address), Function)


def variable_at(s: Session, address: int) -> tuple[int, int]:
    """Address and bytes of the variable whose host shadow is at an address.

    Raises:
        CudaError: there is none.
    """
    known = registered(s).variables.get(address)
    if known is None:
        raise CudaError(Status.INVALID_SYMBOL, f"no variable is registered for {address:#x}")
    image, name = known
    placed = s.get(module_of(s, image), Module).placed
    if name not in placed:
        raise CudaError(Status.INVALID_SYMBOL, f"the PTX has no variable {name!r}")
    return placed[name]


@entry("__cudaRegisterFatBinary")
def register_image(s: Session, wrapper: int) -> int:
    """Give a handle of an image."""
    return s.new(Image(wrapper))


@entry("__cudaRegisterFatBinaryEnd")
def registered_all(s: Session, image: int) -> None:
    """Take that an image has no more kernels."""
    s.get(image, Image)


@entry("__cudaInitModule")
def init_module(s: Session, image: int) -> int:
    """Load an image."""
    module_of(s, s.get(image, Image))
    return 1


@entry("__cudaUnregisterFatBinary")
def unregister_image(s: Session, image: int) -> None:
    """Forget an image."""
    gone = s.drop(image, Image)
    names = registered(s)
    names.kernels = {at: known for at, known in names.kernels.items() if known[0] is not gone}


@entry("__cudaRegisterFunction")
def register_function(s: Session, image: int, stub: int, _device: int, name: int) -> None:
    """Learn a kernel's name."""
    registered(s).kernels[stub] = (s.get(image, Image), s.program.string(name))


@entry("__cudaRegisterVar", "__cudaRegisterHostVar")
def register_variable(s: Session, image: int, shadow: int, _device: int, name: int) -> None:
    """Learn a variable's name."""
    registered(s).variables[shadow] = (s.get(image, Image), s.program.string(name))


@entry("__cudaRegisterManagedVar")
def register_managed(s: Session, *words: int) -> None:
    """Place a variable that host and device share, and tell the program where."""
    image, pointer, _device, name, _extern, size = words[:6]
    address = s.arena.allocate(size, "managed")
    text = s.program.string(name)
    s.get(image, Image).managed[text] = (address, size)
    registered(s).variables[pointer] = (s.get(image, Image), text)
    s.program.put(pointer, "Q", address)


@entry("__cudaPushCallConfiguration")
def push_launch(s: Session, *words: int) -> None:
    """Keep what `<<<...>>>` says."""
    registered(s).launches.setdefault(s.program.thread, []).append(words[:6])


@entry("__cudaPopCallConfiguration")
def pop_launch(s: Session, grid: int, block: int, smem: int, stream: int) -> None:
    """Give what was kept last."""
    launches = registered(s).launches.get(s.program.thread)
    if not launches:
        raise CudaError(Status.INVALID_CONFIGURATION)
    grid_xy, grid_z, block_xy, block_z, shared, where = launches.pop()
    s.program.put(grid, "QI", grid_xy, grid_z & 0xFFFFFFFF)
    s.program.put(block, "QI", block_xy, block_z & 0xFFFFFFFF)
    s.program.put(smem, "Q", shared)
    s.program.put(stream, "Q", where)


@entry("__cudaGetKernel")
def stub_of(s: Session, out: int, stub: int) -> None:
    """Give the stub back as a kernel's handle: only the launch is asked whether it went well."""
    s.program.put(out, "Q", stub)


@entry("cudaGetKernel", "cudaGetFuncBySymbol")
def get_kernel(s: Session, out: int, stub: int) -> None:
    """Give the handle of a kernel."""
    s.program.put(out, "Q", function_at(s, stub))
