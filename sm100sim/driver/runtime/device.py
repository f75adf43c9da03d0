"""The device, errors, entry points (CUDA Runtime API, "Device Management", "Error Handling")."""

from __future__ import annotations

from ..api.device import known_device
from ..api.entry_points import give_entry_point
from ..base.codes import description, runtime_name
from ..base.session import Session
from ..base.table import I32, U32, entry
from .properties import CUDA_12, CUDA_13, properties


@entry("cudaGetDeviceProperties")
def device_properties(s: Session, out: int, device: I32) -> None:
    """Give all properties."""
    known_device(device)
    s.program.write(out, properties(s, CUDA_13))


@entry("cudaGetDeviceProperties_v2")
def device_properties_12(s: Session, out: int, device: I32) -> None:
    """Give all properties as CUDA 12 has them."""
    known_device(device)
    s.program.write(out, properties(s, CUDA_12))


@entry("cudaGetDevice")
def get_device(s: Session, out: int) -> None:
    """Give device 0."""
    s.program.put(out, "i", 0)


@entry("cudaStreamGetDevice", "cuStreamGetDevice")
def stream_device(s: Session, stream: int, out: int) -> None:
    """Give device 0."""
    s.stream(stream)
    s.program.put(out, "i", 0)


@entry("cudaSetDevice", "cudaInitDevice")
def set_device(_s: Session, device: I32) -> None:
    """Take device 0."""
    known_device(device)


@entry("cudaChooseDevice")
def choose_device(s: Session, out: int) -> None:
    """Give device 0."""
    s.program.put(out, "i", 0)


@entry("cudaGetDeviceFlags")
def device_flags(s: Session, out: int) -> None:
    """Give the flags of the primary context."""
    s.program.put(out, "I", s.primary.flags)


@entry("cudaDeviceReset")
def reset(s: Session) -> None:
    """Forget the error of a stopped launch."""
    s.fault = None
    s.last_error = 0


@entry("cudaGetLastError")
def last_error(s: Session) -> int:
    """Give the last error and forget it; that of a stopped launch stays."""
    code = s.last_error or int(s.fault or 0)
    s.last_error = int(s.fault or 0)
    return code


@entry("cudaPeekAtLastError")
def peek_error(s: Session) -> int:
    """Give the last error."""
    return s.last_error or int(s.fault or 0)


@entry("cudaGetErrorName")
def error_name(s: Session, code: U32) -> int:
    """Give the name of an error."""
    return s.text(runtime_name(code) or "unrecognized error code")


@entry("cudaGetErrorString")
def error_text(s: Session, code: U32) -> int:
    """Give an error in words."""
    return s.text(description(code) or "unrecognized error code")


@entry("cudaGetDriverEntryPointByVersion")
def entry_point(s: Session, *words: int) -> int:
    """Give a function of the driver by its name."""
    name, out, version, flags, status = words[:5]
    return give_entry_point(s, name, out, version & 0xFFFFFFFF, flags, status)


@entry("cudaGetDriverEntryPoint")
def entry_point_unversioned(s: Session, name: int, out: int, flags: int, status: int) -> int:
    """Give a function of the driver by its name."""
    return give_entry_point(s, name, out, 13000, flags, status)
