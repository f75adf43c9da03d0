"""What ``torch.compile`` leaves out of its graph: score modifiers given as plain functions."""

from __future__ import annotations

import torch

from ..run.compute import compute

compute_apart = torch.compiler.disable(
    compute,
    reason="score_mod is a Python function, which a graph cannot hold; nearest supported choice: "
    "modifier = fa4_cute.score_mods.function(score_mod, aux_tensors), once and outside of what is "
    "compiled, and score_mod=modifier",
)
"""The call that breaks the graph in two."""
