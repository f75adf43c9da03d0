"""Error codes of the CUDA driver and runtime, which share their numbers, and their names.

CUDA Driver API, "CUresult"; CUDA Runtime API, "cudaError".
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class Status(IntEnum):
    """The codes that the stand-in answers."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    INVALID_CONFIGURATION = 9
    INVALID_SYMBOL = 13
    INVALID_FUNCTION = 98
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY = 209
    INVALID_PTX = 218
    FILE_NOT_FOUND = 301
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    MEMORY_REGISTERED = 712
    MEMORY_NOT_REGISTERED = 713
    MISALIGNED = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_TOO_LARGE = 720
    NOT_SUPPORTED = 801
    CAPTURE_UNSUPPORTED = 900
    UNKNOWN = 999


class CudaError(Exception):
    """A call that answers a code; `why` is said on standard error when there is one."""

    def __init__(self, code: Status, why: str = "") -> None:
        self.code = code
        self.why = why
        super().__init__(why)


_DRIVER: Final = """
0 SUCCESS; 1 INVALID_VALUE; 2 OUT_OF_MEMORY; 3 NOT_INITIALIZED; 4 DEINITIALIZED;
5 PROFILER_DISABLED; 6 PROFILER_NOT_INITIALIZED; 7 PROFILER_ALREADY_STARTED;
8 PROFILER_ALREADY_STOPPED; 34 STUB_LIBRARY; 36 CALL_REQUIRES_NEWER_DRIVER;
46 DEVICE_UNAVAILABLE; 100 NO_DEVICE; 101 INVALID_DEVICE; 102 DEVICE_NOT_LICENSED;
200 INVALID_IMAGE; 201 INVALID_CONTEXT; 202 CONTEXT_ALREADY_CURRENT; 205 MAP_FAILED;
206 UNMAP_FAILED; 207 ARRAY_IS_MAPPED; 208 ALREADY_MAPPED; 209 NO_BINARY_FOR_GPU;
210 ALREADY_ACQUIRED; 211 NOT_MAPPED; 212 NOT_MAPPED_AS_ARRAY; 213 NOT_MAPPED_AS_POINTER;
214 ECC_UNCORRECTABLE; 215 UNSUPPORTED_LIMIT; 216 CONTEXT_ALREADY_IN_USE;
217 PEER_ACCESS_UNSUPPORTED; 218 INVALID_PTX; 219 INVALID_GRAPHICS_CONTEXT;
220 NVLINK_UNCORRECTABLE; 221 JIT_COMPILER_NOT_FOUND; 222 UNSUPPORTED_PTX_VERSION;
223 JIT_COMPILATION_DISABLED; 224 UNSUPPORTED_EXEC_AFFINITY; 225 UNSUPPORTED_DEVSIDE_SYNC;
226 CONTAINED; 300 INVALID_SOURCE; 301 FILE_NOT_FOUND; 302 SHARED_OBJECT_SYMBOL_NOT_FOUND;
303 SHARED_OBJECT_INIT_FAILED; 304 OPERATING_SYSTEM; 400 INVALID_HANDLE; 401 ILLEGAL_STATE;
402 LOSSY_QUERY; 500 NOT_FOUND; 600 NOT_READY; 700 ILLEGAL_ADDRESS;
701 LAUNCH_OUT_OF_RESOURCES; 702 LAUNCH_TIMEOUT; 703 LAUNCH_INCOMPATIBLE_TEXTURING;
704 PEER_ACCESS_ALREADY_ENABLED; 705 PEER_ACCESS_NOT_ENABLED; 708 PRIMARY_CONTEXT_ACTIVE;
709 CONTEXT_IS_DESTROYED; 710 ASSERT; 711 TOO_MANY_PEERS; 712 HOST_MEMORY_ALREADY_REGISTERED;
713 HOST_MEMORY_NOT_REGISTERED; 714 HARDWARE_STACK_ERROR; 715 ILLEGAL_INSTRUCTION;
716 MISALIGNED_ADDRESS; 717 INVALID_ADDRESS_SPACE; 718 INVALID_PC; 719 LAUNCH_FAILED;
720 COOPERATIVE_LAUNCH_TOO_LARGE; 721 TENSOR_MEMORY_LEAK; 800 NOT_PERMITTED;
801 NOT_SUPPORTED; 802 SYSTEM_NOT_READY; 803 SYSTEM_DRIVER_MISMATCH;
804 COMPAT_NOT_SUPPORTED_ON_DEVICE; 805 MPS_CONNECTION_FAILED; 806 MPS_RPC_FAILURE;
807 MPS_SERVER_NOT_READY; 808 MPS_MAX_CLIENTS_REACHED; 809 MPS_MAX_CONNECTIONS_REACHED;
810 MPS_CLIENT_TERMINATED; 811 CDP_NOT_SUPPORTED; 812 CDP_VERSION_MISMATCH;
900 STREAM_CAPTURE_UNSUPPORTED; 901 STREAM_CAPTURE_INVALIDATED; 902 STREAM_CAPTURE_MERGE;
903 STREAM_CAPTURE_UNMATCHED; 904 STREAM_CAPTURE_UNJOINED; 905 STREAM_CAPTURE_ISOLATION;
906 STREAM_CAPTURE_IMPLICIT; 907 CAPTURED_EVENT; 908 STREAM_CAPTURE_WRONG_THREAD;
909 TIMEOUT; 910 GRAPH_EXEC_UPDATE_FAILURE; 911 EXTERNAL_DEVICE; 912 INVALID_CLUSTER_SIZE;
913 FUNCTION_NOT_LOADED; 914 INVALID_RESOURCE_TYPE; 915 INVALID_RESOURCE_CONFIGURATION;
916 KEY_ROTATION; 999 UNKNOWN;
"""

_RUNTIME: Final = """
2 MemoryAllocation; 3 InitializationError; 4 CudartUnloading; 9 InvalidConfiguration;
12 InvalidPitchValue; 13 InvalidSymbol; 16 InvalidHostPointer; 17 InvalidDevicePointer;
18 InvalidTexture; 19 InvalidTextureBinding; 20 InvalidChannelDescriptor;
21 InvalidMemcpyDirection; 22 AddressOfConstant; 23 TextureFetchFailed; 24 TextureNotBound;
25 SynchronizationError; 26 InvalidFilterSetting; 27 InvalidNormSetting;
28 MixedDeviceExecution; 31 NotYetImplemented; 32 MemoryValueTooLarge; 35 InsufficientDriver;
37 InvalidSurface; 43 DuplicateVariableName; 44 DuplicateTextureName;
45 DuplicateSurfaceName; 46 DevicesUnavailable; 49 IncompatibleDriverContext;
52 MissingConfiguration; 53 PriorLaunchFailure; 65 LaunchMaxDepthExceeded;
66 LaunchFileScopedTex; 67 LaunchFileScopedSurf; 68 SyncDepthExceeded;
69 LaunchPendingCountExceeded; 98 InvalidDeviceFunction; 103 SoftwareValidityNotEstablished;
127 StartupFailure; 200 InvalidKernelImage; 201 DeviceUninitialized;
205 MapBufferObjectFailed; 206 UnmapBufferObjectFailed; 209 NoKernelImageForDevice;
214 ECCUncorrectable; 216 DeviceAlreadyInUse; 225 UnsupportedDevSideSync;
400 InvalidResourceHandle; 500 SymbolNotFound; 708 SetOnActiveProcess; 719 LaunchFailure;
"""
"""Names that are not those of the driver in other letters."""


def _table(text: str) -> dict[int, str]:
    return {int(code): name for code, name in re.findall(r"(\d+) (\w+)", text)}


_driver_names: Final = _table(_DRIVER)
_runtime_names: Final = _table(_RUNTIME)


def driver_name(code: int) -> str | None:
    """E.g. "CUDA_ERROR_INVALID_VALUE"; None for a number that is no code."""
    name = _driver_names.get(code)
    return name and ("CUDA_SUCCESS" if not code else f"CUDA_ERROR_{name}")


def runtime_name(code: int) -> str | None:
    """E.g. "cudaErrorInvalidValue"; None for a number that is no code."""
    name = _runtime_names.get(code)
    if name is None and code in _driver_names:
        name = "".join(word.capitalize() for word in _driver_names[code].split("_"))
    return name and ("cudaSuccess" if not code else f"cudaError{name}")


def description(code: int) -> str | None:
    """The name in words, e.g. "invalid value"; None for a number that is no code."""
    if not code:
        return "no error"
    name = _driver_names.get(code)
    if name is not None:
        return name.lower().replace("_", " ")
    name = _runtime_names.get(code)
    return name and re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
