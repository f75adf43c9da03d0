"""Launches the K/V tile copy through the package's own launch code, on a CUDA device.

    python -m testing.hardware.kv_copy_device DIRECTORY    run the first case from the kernel cache there

The command is a process that has no compiler: it launches what another process has published.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fa4_cute.host.compile.cache import KernelCache
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.compile.settings import Settings
from fa4_cute.host.run.device import CudaLauncher
from fa4_cute.host.run.launch import Encoder
from testing.hardware.kv_copy import CASES, HOPPER, KvCopyCase, KvCopySpec
from testing.hardware.kv_copy_record import read_kernel

UNWRITTEN = 0xA5


def launcher_of(*, from_ptx: bool = False) -> CudaLauncher:
    """Return a launcher that loads the cubin as it is, or has the driver compile the PTX."""
    from cuda.bindings import driver

    def image(artifact: CompiledArtifact, capability: tuple[int, int]) -> bytes:
        return artifact.ptx.encode() + b"\0" if from_ptx else artifact.cubin

    return CudaLauncher(driver, image)


def run(
    case: KvCopyCase,
    artifact: CompiledArtifact,
    launcher: CudaLauncher,
    encode: Encoder | None = None,
) -> np.ndarray:
    """Launch ``case`` on a side stream that is torch's current one; return the image."""
    import torch

    def on_device(bits: np.ndarray) -> Any:
        return torch.from_numpy(bits.view(np.int16)).cuda().view(torch.bfloat16)

    with torch.cuda.stream(torch.cuda.Stream()) as _:
        k, v = (on_device(bits) for bits in case.operands())
        image = torch.full((case.image_bytes,), UNWRITTEN, dtype=torch.uint8, device="cuda")
        addresses = (k.data_ptr(), v.data_ptr(), image.data_ptr())
        packed = case.pack(addresses, encode or launcher.encode)
        stream = torch.cuda.current_stream()
        launcher.launch(artifact, packed, torch.cuda.current_device(), stream.cuda_stream)
        stream.synchronize()
        found: np.ndarray = image.cpu().numpy()
        return found


def refuse(spec: KvCopySpec) -> CompiledArtifact:
    """Stand in for the compiler where nothing may be compiled."""
    raise RuntimeError(f"{spec.name} is not in the cache")


def cached(directory: Path, compiler: Any = refuse) -> CompiledArtifact:
    """Return the first case's kernel from the package's cache in ``directory``."""
    stand_in: Any = CASES[0].spec(HOPPER)
    return KernelCache(Settings(directory, 10.0), compiler).get(stand_in)


def publish(directory: Path) -> CompiledArtifact:
    """Put the recorded kernel into the package's cache in ``directory``."""
    return cached(directory, read_kernel)


def main() -> None:
    """Launch from the cache, without the DSL; print the image's hash."""
    image = run(CASES[0], cached(Path(sys.argv[1])), launcher_of())
    if "cutlass" in sys.modules:
        raise RuntimeError("the DSL was imported")
    print(hashlib.sha256(image.tobytes()).hexdigest())


if __name__ == "__main__":
    main()
