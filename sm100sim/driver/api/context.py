"""Contexts and streams (CUDA Driver API, "Context Management", "Stream Management").

A program has one device and all its contexts share one memory, so a context is only remembered.
"""

from __future__ import annotations

from ..base.codes import CudaError, Status
from ..base.objects import Context, Stream, Work
from ..base.session import HOST_NODE, Session
from ..base.table import I32, U32, entry
from .device import VERSION, known_device

LOWEST, HIGHEST = 0, -5
"""Priorities of streams."""


@entry("cuDevicePrimaryCtxRetain")
def retain_primary(s: Session, out: int, device: I32) -> None:
    """Give the primary context."""
    known_device(device)
    s.primary.users += 1
    s.program.put(out, "Q", s.primary_handle)


@entry("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease")
def release_primary(s: Session, device: I32) -> None:
    """Give the primary context back."""
    known_device(device)
    s.primary.users = max(s.primary.users - 1, 0)


@entry("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset")
def reset_primary(s: Session, device: I32) -> None:
    """Forget the error of a stopped launch."""
    known_device(device)
    s.fault = None


@entry("cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags")
def set_primary_flags(s: Session, device: I32, flags: U32) -> None:
    """Remember the flags."""
    known_device(device)
    s.primary.flags = flags


@entry("cuDevicePrimaryCtxGetState")
def primary_state(s: Session, device: I32, flags: int, active: int) -> None:
    """Give the flags, and whether anybody holds the context."""
    known_device(device)
    s.program.put(flags, "I", s.primary.flags)
    s.program.put(active, "i", int(s.primary.users > 0))


@entry("cuCtxCreate_v2", "cuCtxCreate")
def create_context(s: Session, out: int, flags: U32, device: I32) -> None:
    """Make a context and make it current."""
    known_device(device)
    handle = s.new(Context(flags))
    s.contexts.append(handle)
    s.program.put(out, "Q", handle)


@entry("cuCtxCreate_v3")
def create_context_affinity(s: Session, out: int, _a: int, _n: I32, flags: U32, d: I32) -> None:
    """Make a context; how many SMs it may have is not modelled."""
    create_context(s, out, flags, d)


@entry("cuCtxCreate_v4")
def create_context_parameters(s: Session, out: int, _p: int, flags: U32, device: I32) -> None:
    """Make a context; further parameters are not modelled."""
    create_context(s, out, flags, device)


@entry("cuCtxDestroy_v2", "cuCtxDestroy")
def destroy_context(s: Session, context: int) -> None:
    """Forget a context."""
    s.drop(context, Context)
    s.contexts = [handle for handle in s.contexts if handle != context]


@entry("cuCtxPushCurrent_v2", "cuCtxPushCurrent")
def push_context(s: Session, context: int) -> None:
    """Make a context current."""
    s.get(context, Context)
    s.contexts.append(context)


@entry("cuCtxPopCurrent_v2", "cuCtxPopCurrent")
def pop_context(s: Session, out: int) -> None:
    """Make the one before current again."""
    if not s.contexts:
        raise CudaError(Status.INVALID_CONTEXT)
    s.program.put(out, "Q", s.contexts.pop())


@entry("cuCtxSetCurrent")
def set_context(s: Session, context: int) -> None:
    """Make a context the current one in place of another."""
    if s.contexts:
        s.contexts.pop()
    if context:
        push_context(s, context)


@entry("cuCtxGetCurrent")
def get_context(s: Session, out: int) -> None:
    """Give the current context, or null."""
    s.program.put(out, "Q", s.contexts[-1] if s.contexts else 0)


@entry("cuCtxGetDevice")
def context_device(s: Session, out: int) -> None:
    """Give the device of the current context."""
    if not s.contexts:
        raise CudaError(Status.INVALID_CONTEXT)
    s.program.put(out, "i", 0)


@entry("cuCtxGetDevice_v2")
def device_of(s: Session, out: int) -> None:
    """Give the device."""
    s.program.put(out, "i", 0)


@entry("cuCtxGetFlags")
def context_flags(s: Session, out: int) -> None:
    """Give the flags of the current context."""
    s.program.put(out, "I", s.get(s.contexts[-1], Context).flags if s.contexts else 0)


@entry("cuCtxGetId")
def context_id(s: Session, context: int, out: int) -> None:
    """Give a number that no other context has."""
    s.program.put(out, "Q", context or (s.contexts[-1] if s.contexts else 0))


@entry("cuCtxGetApiVersion")
def api_version(s: Session, _context: int, out: int) -> None:
    """Give the version of the API."""
    s.program.put(out, "I", VERSION)


@entry(
    "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cuCtxSetFlags",
    "cuCtxResetPersistingL2Cache", "cudaCtxResetPersistingL2Cache", "cudaDeviceSetCacheConfig",
    "cudaDeviceSetSharedMemConfig",
    "cudaSetDeviceFlags", "cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart",
    "cuProfilerStop", "cudaSetValidDevices", "cuFuncSetCacheConfig", "cuFuncSetSharedMemConfig",
    "cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig", "cuKernelSetCacheConfig",
)  # fmt: skip
def without_effect(_s: Session) -> None:
    """Take a wish that has no effect on results."""


@entry("cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig", "cudaDeviceGetCacheConfig")
def cache_config(s: Session, out: int) -> None:
    """Give "none preferred"."""
    s.program.put(out, "i", 0)


@entry("cuCtxGetStreamPriorityRange", "cudaDeviceGetStreamPriorityRange")
def priorities(s: Session, least: int, greatest: int) -> None:
    """Give the lowest and the highest priority."""
    s.program.put(least, "i", LOWEST)
    s.program.put(greatest, "i", HIGHEST)


@entry("cuCtxSynchronize", "cudaDeviceSynchronize", "cuCtxSynchronize_v2", "cudaThreadSynchronize")
def synchronise(s: Session) -> None:
    """Wait for nothing: all work is done."""
    s.check()


@entry("cuStreamCreate", "cudaStreamCreateWithFlags")
def create_stream(s: Session, out: int, flags: U32) -> None:
    """Make a stream."""
    s.program.put(out, "Q", s.new(Stream(flags)))


@entry("cudaStreamCreate")
def create_plain_stream(s: Session, out: int) -> None:
    """Make a stream."""
    create_stream(s, out, 0)


@entry("cuStreamCreateWithPriority", "cudaStreamCreateWithPriority")
def create_stream_priority(s: Session, out: int, flags: U32, priority: I32) -> None:
    """Make a stream with a priority, which has no effect."""
    within = min(max(priority, HIGHEST), LOWEST)
    s.program.put(out, "Q", s.new(Stream(flags, within)))


@entry("cuStreamDestroy_v2", "cuStreamDestroy", "cudaStreamDestroy")
def destroy_stream(s: Session, stream: int) -> None:
    """Forget a stream."""
    s.drop(stream, Stream)


@entry("cuStreamSynchronize", "cuStreamQuery", "cudaStreamSynchronize", "cudaStreamQuery")
def stream_done(s: Session, stream: int) -> None:
    """Say that all work is done."""
    if s.stream(stream).capture is not None:
        raise CudaError(Status.CAPTURE_UNSUPPORTED)
    s.check()


@entry("cuStreamGetFlags", "cudaStreamGetFlags")
def stream_flags(s: Session, stream: int, out: int) -> None:
    """Give the flags."""
    s.program.put(out, "I", s.stream(stream).flags)


@entry("cuStreamGetPriority", "cudaStreamGetPriority")
def stream_priority(s: Session, stream: int, out: int) -> None:
    """Give the priority."""
    s.program.put(out, "i", s.stream(stream).priority)


@entry("cuStreamGetId", "cudaStreamGetId")
def stream_id(s: Session, stream: int, out: int) -> None:
    """Give a number that no other stream has."""
    s.stream(stream)
    s.program.put(out, "Q", stream)


@entry("cuStreamGetCtx")
def stream_context(s: Session, _stream: int, out: int) -> None:
    """Give the current context."""
    s.program.put(out, "Q", s.contexts[-1] if s.contexts else s.primary_handle)


@entry("cuStreamSetAttribute", "cuStreamCopyAttributes", "cudaStreamSetAttribute")
def stream_attribute(s: Session, stream: int) -> None:
    """Take an attribute, which has no effect on results."""
    s.stream(stream)


@entry("cuStreamAttachMemAsync", "cudaStreamAttachMemAsync")
def attach_memory(s: Session, stream: int) -> None:
    """Take which stream managed memory belongs to; every stream sees it."""
    s.stream(stream)


@entry("cuLaunchHostFunc", "cudaLaunchHostFunc")
def host_function(s: Session, stream: int, function: int, data: int) -> None:
    """Call a function of the program."""
    s.submit(stream, calling(s, function, data), HOST_NODE)


@entry("cuStreamAddCallback", "cudaStreamAddCallback")
def stream_callback(s: Session, stream: int, function: int, data: int) -> None:
    """Call a function of the program with the stream and a status."""
    s.check()
    s.program.call(function, stream, Status.SUCCESS, data)


def calling(s: Session, function: int, data: int) -> Work:
    """Work that calls a function of the program with a word."""

    def work() -> None:
        s.program.call(function, data)

    return work
