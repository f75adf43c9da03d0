"""Stand-ins for the compiler, and a small specification to compile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from fa4_cute.host.compile.compiler import CompiledArtifact
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.kernel_spec import KernelSpec

SPEC = KernelSpec.for_attention(DType.BF16, 64)
OTHER = KernelSpec.for_attention(DType.FP16, 64, causal=True)


def artifact_of(spec: AttentionSpec | CombineSpec) -> CompiledArtifact:
    """What the stand-in compiles ``spec`` to."""
    ptx, cubin = f"// {spec.name} ä\n" * 50, bytes(range(256)) * 20
    return CompiledArtifact.of(spec, ptx, cubin, f"{spec.name}_0")


@dataclass
class CountingCompiler:
    """Counts what it compiles, and takes ``seconds`` for it."""

    seconds: float = 0.0
    compiled: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, spec: AttentionSpec | CombineSpec) -> CompiledArtifact:
        with self.lock:
            self.compiled.append(spec.name)
        time.sleep(self.seconds)
        return artifact_of(spec)
