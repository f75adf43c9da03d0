"""Files of the K/V tile copy: the kernels that ran on the H200, and the images that came back.

    python -m testing.hardware.kv_copy_record    compile the kernels (CuTe DSL; no GPU) into the records

A kernel is stored as the package's cache stores one. The images are one LZMA file: a line of JSON
(name of the case -> bytes), then 16-bit differences, which compress well.
"""

from __future__ import annotations

import json
import lzma
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from fa4_cute.host.compile import cache_files
from fa4_cute.host.compile.cache_files import StoredKernel
from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.host.compile.kernel_key import canonical, kernel_key, toolchain
from testing.hardware.kv_copy import CASES, HOPPER, KvCopySpec, compile_copy

DIRECTORY: Final = Path(__file__).parent / "records" / "kv_copy"
IMAGES: Final = "images.xz"


def specs(arch: str = HOPPER) -> list[KvCopySpec]:
    """Return the kernels of all cases, each once."""
    return list(dict.fromkeys(case.spec(arch) for case in CASES))


def kernel_path(spec: KvCopySpec) -> Path:
    """Return the file of a kernel."""
    return DIRECTORY / f"{spec.name}{cache_files.SUFFIX}"


def write_kernel(spec: KvCopySpec) -> None:
    """Compile ``spec`` and store it."""
    artifact = compile_copy(spec)
    meta = {
        "kernel_name": artifact.kernel_name, "spec": canonical(spec), "toolchain": toolchain(),
    }  # fmt: skip
    stored = StoredKernel(artifact.ptx, artifact.cubin, meta)
    stand_in: Any = spec
    cache_files.write_entry(kernel_path(spec), kernel_key(stand_in), stored)


def read_kernel(spec: KvCopySpec) -> CompiledArtifact:
    """Return the stored kernel of ``spec``; needs no DSL."""
    path = kernel_path(spec)
    with zipfile.ZipFile(path) as archive:
        key = json.loads(archive.read("meta.json"))["key"]
    with tempfile.TemporaryDirectory() as folder:
        # A checkout may let a group write, which a cache refuses.
        private = Path(shutil.copyfile(path, Path(folder) / path.name))
        private.chmod(0o600)
        stored = cache_files.read_entry(private, key)
    return CompiledArtifact.of(spec, stored.ptx, stored.cubin, str(stored.meta["kernel_name"]))


def write_images(images: dict[str, np.ndarray], directory: Path = DIRECTORY) -> Path:
    """Store the images of all cases."""
    sizes = {name: image.nbytes for name, image in images.items()}
    words = [np.diff(image.view(np.uint16), prepend=np.uint16(0)) for image in images.values()]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / IMAGES
    body = b"".join(w.astype(np.uint16).tobytes() for w in words)
    path.write_bytes(lzma.compress(json.dumps(sizes).encode() + b"\n" + body))
    return path


def read_images(directory: Path = DIRECTORY) -> dict[str, np.ndarray]:
    """Return the recorded image of each case as bytes."""
    raw = lzma.decompress((directory / IMAGES).read_bytes())
    head, body = raw.split(b"\n", 1)
    images, at = {}, 0
    for name, size in json.loads(head).items():
        words = np.frombuffer(body, np.uint16, size // 2, at)
        images[name] = np.cumsum(words, dtype=np.uint16).view(np.uint8)
        at += size
    return images


if __name__ == "__main__":
    for one in specs():
        write_kernel(one)
        print(kernel_path(one).name, kernel_path(one).stat().st_size, "bytes")
