"""The clocked machine: an SM, or those of a cluster, that replays machine code cycle by cycle.

`rules` and `happenings` say what instructions and events take on a chip, `tables` hands that to
the C code in `engine/clock`, and `machine` runs it.
"""

from .machine import ClusterTime, Span, StuckError, WarpTime, run_cluster
from .tables import Residents

__all__ = ["ClusterTime", "Residents", "Span", "StuckError", "WarpTime", "run_cluster"]
