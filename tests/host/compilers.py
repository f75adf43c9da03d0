"""Stand-ins for the compiler, and a small specification to compile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec

SPEC = KernelSpec.for_attention(DType.BF16, 64)
OTHER = KernelSpec.for_attention(DType.FP16, 64, causal=True)


def artifact_of(spec: KernelSpec) -> CompiledArtifact:
    """What the stand-in compiles ``spec`` to."""
    return CompiledArtifact(
        ptx=f"// {spec.name} ä\n" * 50,
        cubin=bytes(range(256)) * 20,
        kernel_name=f"{spec.name}_0",
        params=spec.params,
        smem_bytes=spec.smem_bytes,
        threads=spec.num_threads,
        cluster=(spec.cluster_size, 1, 1),
    )


@dataclass
class CountingCompiler:
    """Counts what it compiles, and takes ``seconds`` for it."""

    seconds: float = 0.0
    compiled: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, spec: KernelSpec) -> CompiledArtifact:
        with self.lock:
            self.compiled.append(spec.name)
        time.sleep(self.seconds)
        return artifact_of(spec)
