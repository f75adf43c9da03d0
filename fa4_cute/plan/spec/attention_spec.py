"""``AttentionSpec``: the specification of any attention kernel."""

from __future__ import annotations

from .depth512_spec import Depth512Spec
from .kernel_spec import KernelSpec
from .sm90_spec import SM90Spec

AttentionSpec = KernelSpec | Depth512Spec | SM90Spec
