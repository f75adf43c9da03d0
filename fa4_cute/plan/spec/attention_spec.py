"""``AttentionSpec``: the specification of either attention kernel."""

from __future__ import annotations

from .depth512_spec import Depth512Spec
from .kernel_spec import KernelSpec

AttentionSpec = KernelSpec | Depth512Spec
