"""The table of kernels: which problems each serves. A kernel is one row of :data:`KERNELS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...plan.config.depth512_config import DEPTHS
from ...plan.config.operand_config import QKV_DTYPES
from ...plan.config.sm90_tiles import MAX_DEPTH as MAX_SM90_DEPTH
from ...plan.facts.dtypes import DType
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.depth512_spec import SMALLEST_DEPTH, Depth512Spec
from ...plan.spec.kernel_spec import KernelSpec
from ...plan.spec.sm90_spec import SM90Spec


@dataclass(frozen=True)
class KernelRow:
    """A kernel, the problems it serves, and how it is specified.

    Attributes:
        name: class of the kernel.
        dtypes: element types.
        head_dims: smallest and largest head dimension.
        features: names of the features it has besides full and causal masks (``FEATURES``).
        specify: class whose ``for_attention`` makes the specification for the compiler, and names
            the architecture.
        forms: names of the special forms of operands that it takes (``Problem.form``).
    """

    name: str
    dtypes: tuple[DType, ...]
    head_dims: tuple[int, int]
    features: frozenset[str]
    specify: type[AttentionSpec]
    forms: frozenset[str] = frozenset()

    @property
    def arch(self) -> str:
        """Architecture of the kernel."""
        return self.specify.arch

    def serves(self, dtype: DType, head_dim: int) -> bool:
        """Whether the row is the one for ``dtype`` and ``head_dim``."""
        low, high = self.head_dims
        return dtype in self.dtypes and low <= head_dim <= high


FEATURES: Final = {
    "mask": "windows, chunks, padding, bias, and combinations",
    "score_mod": "score modifiers, softcap, ALiBi",
    "sink": "attention sinks",
    "cu_seqlens_q": "ragged queries",
    "cu_seqlens_k": "ragged keys",
    "seqused_k": "cache lengths",
    "page_table": "paged cache",
    "num_splits": "split keys",
    "split": "split keys within a cluster",
    "split='last'": "split keys joined by the last CTA",
    "scheduler": "persistent CTAs",
    "scheduler='dynamic'": "CTAs that take over others by cluster launch control",
    "scheduler='stream_k'": "CTAs that take as many keys each",
    "q_scale": "scales per token of fp8 operands",
}
"""Arguments that take a kernel of their own, and what they stand for."""

SM90_FEATURES: Final = (
    "mask", "score_mod", "sink", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table",
    "num_splits", "scheduler", "scheduler='stream_k'", "q_scale",
)  # fmt: skip
"""What the Hopper kernel has."""

KERNELS: Final = (
    KernelRow(
        name="SM100MHA2Q",
        dtypes=(DType.BF16, DType.FP16, DType.FP8_E4M3),
        head_dims=(8, 192),
        features=frozenset(FEATURES),
        specify=KernelSpec,
        forms=frozenset({"head_dim_v", "rope_dtype", "shared_rope", "pair_cta"}),
    ),
    KernelRow(
        name="SM100MHADepth512",
        dtypes=(DType.BF16, DType.FP16, DType.FP8_E4M3),
        head_dims=(SMALLEST_DEPTH, DEPTHS[-1]),
        features=frozenset(FEATURES) - {"split", "split='last'"},
        specify=Depth512Spec,
    ),
    KernelRow(
        name="SM90MHA",
        dtypes=QKV_DTYPES,
        head_dims=(8, MAX_SM90_DEPTH),
        features=frozenset(SM90_FEATURES),
        specify=SM90Spec,
        forms=frozenset({"head_dim_v"}),
    ),
)


def rows_of(arch: str) -> tuple[KernelRow, ...]:
    """Return the kernels of an architecture."""
    return tuple(row for row in KERNELS if row.arch == arch)
