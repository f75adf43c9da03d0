"""What programs ask NVML (NVML API Reference): that there is one device, and its name."""

from __future__ import annotations

import struct

from ..base.codes import CudaError, Status
from ..base.session import Session
from ..base.table import U32, entry
from .device import MEMORY_BYTES, NAME, PCI, UUID, VERSION, attribute, free_bytes, known_device

DEVICE = 0x5A10
"""The handle of the device."""
DRIVER_VERSION = "580.0"
BLACKWELL = 10
"""`nvmlDeviceArchitecture_t`."""


def _text(s: Session, out: int, length: int, text: str) -> None:
    s.program.write(out, text.encode()[: max(length - 1, 0)] + b"\0")


@entry("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown")
def init(s: Session) -> None:
    """Begin or end."""
    s.started = True


@entry("nvmlErrorString")
def error_text(s: Session, code: U32) -> int:
    """Give an error in words."""
    return s.text({0: "Success", 3: "Not Supported"}.get(code, f"NVML error {code}"))


@entry("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion")
def driver_version(s: Session, out: int, length: U32) -> None:
    """Give the version of the driver, as a text."""
    _text(s, out, length, DRIVER_VERSION)


@entry("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def cuda_version(s: Session, out: int) -> None:
    """Give the version of CUDA."""
    s.program.put(out, "i", VERSION)


@entry("nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def count(s: Session, out: int) -> None:
    """Say one."""
    s.program.put(out, "I", 1)


@entry("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def by_index(s: Session, index: U32, out: int) -> None:
    """Give the device."""
    known_device(index)
    s.program.put(out, "Q", DEVICE)


@entry("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByPciBusId",
       "nvmlDeviceGetHandleByPciBusId_v2")  # fmt: skip
def by_name(s: Session, name: int, out: int) -> None:
    """Give the device by its identifier or its place on the PCI bus."""
    text = s.program.string(name)
    if str(UUID) not in text and not text.endswith(PCI.removeprefix("0000")):
        raise CudaError(Status.NOT_FOUND)
    s.program.put(out, "Q", DEVICE)


@entry("nvmlDeviceGetName")
def name_of(s: Session, _device: int, out: int, length: U32) -> None:
    """Give the name."""
    _text(s, out, length, NAME)


@entry("nvmlDeviceGetUUID")
def identifier(s: Session, _device: int, out: int, length: U32) -> None:
    """Give the identifier."""
    _text(s, out, length, f"GPU-{UUID}")


@entry("nvmlDeviceGetIndex", "nvmlDeviceGetMinorNumber")
def index_of(s: Session, _device: int, out: int) -> None:
    """Give 0."""
    s.program.put(out, "I", 0)


@entry("nvmlDeviceGetMemoryInfo")
def memory(s: Session, _device: int, out: int) -> None:
    """Give all, free and used bytes."""
    free = free_bytes(s)
    s.program.put(out, "QQQ", MEMORY_BYTES, free, MEMORY_BYTES - free)


@entry("nvmlDeviceGetCudaComputeCapability")
def capability(s: Session, _device: int, major: int, minor: int) -> None:
    """Give 10 and 0."""
    s.program.put(major, "i", attribute(s, 75))
    s.program.put(minor, "i", attribute(s, 76))


@entry("nvmlDeviceGetMigMode")
def partitioned(s: Session, _device: int, now: int, later: int) -> None:
    """Say that the device is not partitioned."""
    s.program.put(now, "I", 0)
    s.program.put(later, "I", 0)


@entry("nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeMode")
def mode(s: Session, _device: int, out: int) -> None:
    """Give the default mode."""
    s.program.put(out, "I", 0)


@entry("nvmlDeviceGetArchitecture")
def architecture(s: Session, _device: int, out: int) -> None:
    """Say Blackwell."""
    s.program.put(out, "I", BLACKWELL)


@entry("nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v3")
def pci_info(s: Session, _device: int, out: int) -> None:
    """Give the place on the PCI bus: two names, and its parts."""
    place = (attribute(s, 50), attribute(s, 33), attribute(s, 34), attribute(s, 139) << 16, 0)
    short, long = PCI.encode().ljust(16, b"\0"), f"0000{PCI}".encode().ljust(32, b"\0")
    s.program.write(out, short + struct.pack("<5I", *place) + long)


@entry("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v3",
       "nvmlDeviceGetGraphicsRunningProcesses_v3")  # fmt: skip
def processes(s: Session, _device: int, number: int) -> None:
    """Say that nobody else is there."""
    s.program.put(number, "I", 0)


@entry("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons")
def throttling(s: Session, _device: int, out: int) -> None:
    """Say that nothing slows the device down."""
    s.program.put(out, "Q", 0)


@entry("nvmlDeviceGetTotalEccErrors")
def memory_errors(s: Session, _device: int, _kind: U32, _counter: U32, out: int) -> None:
    """Say that there was none."""
    s.program.put(out, "Q", 0)


@entry("nvmlDeviceGetUtilizationRates")
def utilization(s: Session, _device: int, out: int) -> None:
    """Say that the device is idle between calls."""
    s.program.put(out, "II", 0, 0)
